// The admin interface's name of a field, and its name on the command line.
const TYPED: Record<string, string> = {
  'body.after': '--after',
  'body.callbackUrl': '--callback-url',
  'query.activityId': '--activity',
  'query.athleteId': '--athlete',
  'query.cursor': '--cursor',
  'query.limit': '--limit',
  'query.olderThan': '--older-than',
  'query.reason': '--reason',
  'query.status': '--status',
  'path.id': 'The id',
};

/** The service's complaints about fields, each under the name that was typed. */
export function inTypedNames(errors: readonly { field: string; message: string }[]): string {
  return errors.map(({ field, message }) => `${TYPED[field] ?? field} ${message}.`).join('\n  ');
}
