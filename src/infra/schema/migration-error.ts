/** The schema does not suit this release and cannot be made to; the message says what to do. */
export class MigrationError extends Error {
  override name = 'MigrationError';
  readonly code = 'MIGRATION';
}
