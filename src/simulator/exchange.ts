import type { IncomingHttpHeaders } from 'node:http';
import type { Grant } from './token-registry.ts';

/** A call as the routes see it: already read, with its token looked up. */
export interface Call {
  readonly method: string;
  /** Path without the query. */
  readonly path: string;
  /** Raw query without the question mark. */
  readonly query: string;
  readonly headers: IncomingHttpHeaders;
  /** Fields of a form or JSON body; empty for a GET. */
  readonly fields: ReadonlyMap<string, string>;
  /** The grant behind the bearer token, when there is a valid one. */
  readonly grant: Grant | undefined;
  readonly athleteId: string | undefined;
  readonly activityId: string | undefined;
}

/** What the provider answers; `ending` says how the connection is mistreated, if it is. */
export interface Answer {
  readonly status: number;
  readonly body: string | Buffer;
  readonly type?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** `cut`: closed without an answer. `cutBody`: closed half-way through the body. `hang`: never answered. */
  readonly ending?: 'cut' | 'cutBody' | 'hang';
}

export const jsonType = 'application/json; charset=utf-8';
export const htmlType = 'text/html; charset=utf-8';

/** An answer with a JSON text as its body. */
export function answerJson(status: number, body: string | Buffer): Answer {
  return { status, body, type: jsonType };
}

/** A page for people. */
export function answerHtml(status: number, body: string): Answer {
  return { status, body, type: htmlType };
}

/** An error in the provider's form, with one entry in `errors`. */
export function answerError(status: number, message: string, resource: string, field: string, code: string): Answer {
  return answerJson(status, JSON.stringify({ message, errors: [{ resource, field, code }] }));
}

export const unauthorized = answerError(401, 'Authorization Error', 'Application', '', 'invalid');
export const rateLimitExceeded = answerError(429, 'Rate Limit Exceeded', 'Application', 'rate limit', 'exceeded');
export const unknownPath = answerError(404, 'Record Not Found', 'resource', 'path', 'invalid');

/** A named value of the query or else of the body. */
export function parameter(call: Call, name: string): string | undefined {
  return new URLSearchParams(call.query).get(name) ?? call.fields.get(name);
}
