import type { Request } from 'express';
import type { Grant } from './token-registry.ts';

/** What the provider answers; `ending` says how the connection breaks, if it does. */
export interface Answer {
  readonly status: number;
  readonly body: string | Buffer;
  readonly type?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** `cut`: closed without an answer. `cutBody`: closed half-way through the body. `hang`: never answered. */
  readonly ending?: 'cut' | 'cutBody' | 'hang';
}

/** Works out the answer to a request; the grant is the one behind its bearer token, when that is valid. */
export type Handler = (request: Request, grant: Grant | undefined) => Answer | Promise<Answer>;

/** Adds a route to the simulator. */
export type AddRoute = (method: 'get' | 'post' | 'delete', path: string, handler: Handler) => void;

export const jsonType = 'application/json; charset=utf-8';
export const htmlType = 'text/html; charset=utf-8';

/** An answer with a JSON text as its body. */
export function answerJson(status: number, body: string): Answer {
  return { status, body, type: jsonType };
}

/** An error in the provider's form, with one entry in `errors`. */
export function answerError(status: number, message: string, resource: string, field: string, code: string): Answer {
  return answerJson(status, JSON.stringify({ message, errors: [{ resource, field, code }] }));
}

/** The refusal of one of the application's own parameters. */
export function invalid(field: string): Answer {
  return answerError(400, 'Bad Request', 'Application', field, 'invalid');
}

export const unauthorized = answerError(401, 'Authorization Error', 'Application', '', 'invalid');
export const rateLimitExceeded = answerError(429, 'Rate Limit Exceeded', 'Application', 'rate limit', 'exceeded');
export const unknownPath = answerError(404, 'Record Not Found', 'resource', 'path', 'invalid');

/** A named value of the query or else of the form or JSON body; one given more than once is a comma-separated list. */
export function parameter(request: Request, name: string): string | undefined {
  const value: unknown = request.query[name] ?? request.body?.[name];
  return value === undefined ? undefined : String(value);
}
