// "GET /api/v3/activities/1: " in front of what came of it.
const CALL = /^[A-Z]+ \/\S*: /;

/** What a job's error says, without the call that it came from: in a row the activity stands beside it. */
export function withoutCall(error: string): string {
  return error.replace(CALL, '');
}
