import { parseJsonKeepingInt64 } from '../../domain/int64.ts';
import { noteServerTime } from '../clock.ts';
import { closedReason, endSession } from '../session.ts';

/** An answer that is an error, in the service's own words. */
export class ApiError extends Error {
  override name = 'ApiError';
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

export type Method = 'GET' | 'POST' | 'PATCH' | 'DELETE';

/**
 * Calls the admin interface. A 401 ends the session, which shows the sign-in again.
 * @throws ApiError; status 0 when the service cannot be reached
 */
export async function ask<Body>(
  method: Method,
  path: string,
  options: { body?: unknown; signal?: AbortSignal | undefined } = {},
): Promise<Body> {
  const response = await send(method, path, options);
  noteServerTime(response.headers.get('date'));
  const text = await response.text();
  const isJson = /[/+]json/.test(response.headers.get('content-type') ?? '');
  if (!response.ok) {
    const problem = isJson ? (parseJsonKeepingInt64(text) as ProblemBody) : undefined;
    const message = problem ? messageOf(problem) : `The service answered ${response.status}.`;
    if (response.status === 401) {
      closedReason.value = problem?.type === 'about:blank#adminClosed' ? message : '';
      endSession();
    }
    throw new ApiError(response.status, message);
  }
  return (isJson ? parseJsonKeepingInt64(text) : undefined) as Body;
}

async function send(
  method: Method,
  path: string,
  { body, signal }: { body?: unknown; signal?: AbortSignal | undefined },
): Promise<Response> {
  try {
    return await fetch(path, {
      method,
      ...(body === undefined ? {} : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
      ...(signal ? { signal } : {}),
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(
      0,
      `The service cannot be reached. ${method === 'GET' ? 'The page retries automatically.' : 'Try again.'}`,
    );
  }
}

interface ProblemBody {
  type?: string;
  title?: string;
  detail?: string;
  errors?: { field: string; message: string }[];
}

function messageOf({ title, detail, errors }: ProblemBody): string {
  if (errors?.length) return errors.map(({ field, message }) => `${field.replace(/^\w+\./, '')} ${message}`).join('; ');
  return detail ?? title ?? 'The service answered with an error.';
}

/** Builds an address from the parameters that have a value. */
export function withQuery(path: string, query: Record<string, string | undefined>): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value) parameters.set(name, value);
  const text = parameters.toString();
  return text === '' ? path : `${path}?${text}`;
}
