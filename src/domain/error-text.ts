// "GET /api/v3/activities/1: " in front of the result.
const CALL = /^[A-Z]+ \/\S*: /;

/** What a job's error says, without the call that it came from: the row names the activity. */
export function withoutCall(error: string): string {
  return error.replace(CALL, '');
}
