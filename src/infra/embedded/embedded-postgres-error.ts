/**
 * What stopped the embedded PostgreSQL:
 * - `ALREADY_RUNNING`: a server runs on this data folder
 * - `UNSUPPORTED_PLATFORM`, `BINARIES_UNUSABLE`: the package brings nothing that runs here
 * - `NO_SERVER_USER`: started as root, without an unprivileged account to run the server as
 * - `CLUSTER_MISSING`, `CLUSTER_UNUSABLE`: the data is not where it was, or not usable by this server
 * - `FOLDER_UNUSABLE`: a folder for the data cannot be created or written
 * - `INITDB_FAILED`, `START_FAILED`: PostgreSQL's own complaint, quoted in the message
 * - `ENDED`: the running server ended unexpectedly
 */
export type EmbeddedPostgresErrorCode =
  | 'ALREADY_RUNNING'
  | 'UNSUPPORTED_PLATFORM'
  | 'BINARIES_UNUSABLE'
  | 'NO_SERVER_USER'
  | 'CLUSTER_MISSING'
  | 'CLUSTER_UNUSABLE'
  | 'FOLDER_UNUSABLE'
  | 'INITDB_FAILED'
  | 'START_FAILED'
  | 'ENDED';

/** The embedded PostgreSQL cannot start or continue; the message says why and what to do. */
export class EmbeddedPostgresError extends Error {
  override name = 'EmbeddedPostgresError';
  readonly code: EmbeddedPostgresErrorCode;

  constructor(code: EmbeddedPostgresErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
