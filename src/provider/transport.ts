import { Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import got, { type Method, type Request, TimeoutError } from 'got';
import type { z } from 'zod';
import { parseJsonKeepingInt64 } from '../domain/int64.ts';
import { errorOfAnswer, ProviderError } from './errors.ts';
import { type RateUsage, readRateHeaders } from './rate-headers.ts';

/** What the transport reports about each call; `code` is a status, or network, timeout, unreadable. */
export interface CallObserver {
  call(endpoint: string, code: string, seconds: number): void;
  /** Called for each answer under /api/v3 that carries rate headers; the call left `ageMs` ago. */
  usage(usage: RateUsage, ageMs: number): void;
}

export interface ProviderRequest<S extends z.ZodType> {
  /** A bounded name for metrics and errors, e.g. "activity". */
  endpoint: string;
  method: Method;
  path: string;
  accessToken?: string;
  query?: Record<string, string | number | undefined>;
  form?: Record<string, string | undefined>;
  /** What a 2xx body must be; undefined: the body is not checked. */
  schema?: S;
}

export interface ProviderAnswer<T> {
  value: T;
  /** The body, unchanged. */
  body: string;
}

/** The only connection to the provider: only to its origin, no redirects, no retries of its own. */
export interface Transport {
  /** @throws ProviderError */
  send<S extends z.ZodType>(request: ProviderRequest<S>, signal?: AbortSignal): Promise<ProviderAnswer<z.output<S>>>;
  close(): void;
}

// The largest detailed activities have 2 to 3 MB.
const MAX_BODY_BYTES = 8 * 1024 * 1024;
const MAX_ERROR_BYTES = 64 * 1024;
const MAX_DEPTH = 100;

/**
 * @param origin the provider's origin; every path is below it
 * @param timeoutMs for the whole call
 */
export function createTransport(options: {
  origin: string;
  timeoutMs: number;
  observer: CallObserver;
  userAgent: string;
  now: () => number;
}): Transport {
  const agents = { http: new HttpAgent({ keepAlive: true }), https: new HttpsAgent({ keepAlive: true }) };
  const client = got.extend({
    agent: agents,
    timeout: { request: options.timeoutMs },
    retry: { limit: 0 },
    followRedirect: false,
    throwHttpErrors: false,
    headers: { 'user-agent': options.userAgent, accept: 'application/json' },
  });

  return {
    send: async (request, signal) => {
      const what = `${request.method} ${request.path}`;
      const startedAt = performance.now();
      const { accessToken, query, form } = request;
      let code = 'network';
      try {
        const stream = client.stream(`${options.origin}${request.path}`, {
          method: request.method,
          ...(query ? { searchParams: query } : {}),
          // A stream without a body waits for one to be written.
          ...(form ? { form: withoutMissing(form) } : request.method === 'GET' ? {} : { body: '' }),
          ...(accessToken ? { headers: { authorization: `Bearer ${accessToken}` } } : {}),
          ...(signal ? { signal } : {}),
        });
        const { statusCode, headers, body } = await readAnswer(stream);
        code = String(statusCode);
        const usage = request.path.startsWith('/api/v3/') ? readRateHeaders(headers) : undefined;
        if (usage) options.observer.usage(usage, performance.now() - startedAt);
        if (!isSuccess(statusCode)) {
          throw errorOfAnswer(
            what,
            {
              status: statusCode,
              body: body ?? '',
              retryAfter: headers['retry-after'],
              date: headers.date,
              now: options.now(),
            },
            secretsOf(request),
          );
        }
        if (request.schema === undefined) return { value: undefined as never, body: body ?? '' };
        const value = readBody(what, body, request.schema);
        if (value instanceof ProviderError) {
          code = 'unreadable';
          throw value;
        }
        return { value, body: body ?? '' };
      } catch (error) {
        if (error instanceof ProviderError) throw error;
        if (error instanceof TimeoutError) {
          code = 'timeout';
          throw new ProviderError('TIMEOUT', `${what}: no answer within ${options.timeoutMs} ms`);
        }
        const reason = (error as { code?: unknown }).code ?? (error as Error).name;
        throw new ProviderError('NETWORK', `${what}: no answer (${String(reason)})`);
      } finally {
        options.observer.call(request.endpoint, code, (performance.now() - startedAt) / 1000);
      }
    },
    close: () => {
      agents.http.destroy();
      agents.https.destroy();
    },
  };
}

/** @returns the body if it is small enough; for an error its beginning, otherwise all of it */
async function readAnswer(stream: Request) {
  const chunks: Buffer[] = [];
  let bytes = 0;
  let isTooLarge = false;
  // Counted while decompressing: a small compressed body may expand to a large one.
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    bytes += chunk.length;
    isTooLarge = bytes > (isSuccess(stream.response?.statusCode) ? MAX_BODY_BYTES : MAX_ERROR_BYTES);
    if (isTooLarge) break;
  }
  const { statusCode = 0, headers = {} } = stream.response ?? {};
  const body = isTooLarge && isSuccess(statusCode) ? undefined : Buffer.concat(chunks).toString('utf8');
  return { statusCode, headers, body };
}

function isSuccess(status = 0): boolean {
  return status >= 200 && status <= 299;
}

const SECRET_FIELD = /token|secret|^code$/;

/** The values of a call that must not appear in its error. */
function secretsOf({ accessToken, query, form }: ProviderRequest<z.ZodType>): string[] {
  const fields = Object.entries({ ...query, ...form }).filter(([name]) => SECRET_FIELD.test(name));
  return [accessToken, ...fields.map(([, value]) => value)].filter((value) => value !== undefined).map(String);
}

function readBody<S extends z.ZodType>(what: string, body: string | undefined, schema: S): z.output<S> | ProviderError {
  if (body === undefined)
    return new ProviderError('UNUSABLE', `${what}: the answer is larger than ${MAX_BODY_BYTES} bytes`);
  if (depthOf(body) > MAX_DEPTH)
    return new ProviderError('UNUSABLE', `${what}: the answer is nested more than ${MAX_DEPTH} levels deep`);
  let parsed: unknown;
  try {
    parsed = parseJsonKeepingInt64(body);
  } catch (error) {
    // Without its message, which quotes the body.
    if (!(error instanceof SyntaxError)) throw error;
    return new ProviderError('UNREADABLE', `${what}: the body is not JSON (${body.length} characters)`);
  }
  const result = schema.safeParse(parsed);
  if (result.success) return result.data;
  const issue = result.error.issues[0];
  // A field that is missing may be a page in between that is JSON; an impossible value is the provider's own.
  const isImpossible = issue?.code === 'invalid_format' || issue?.code === 'too_big';
  return new ProviderError(
    isImpossible ? 'UNUSABLE' : 'UNREADABLE',
    `${what}: the body does not match the API's schema (${issue?.path.join('.')}: ${issue?.message})`,
  );
}

/** The deepest nesting of objects and lists in a JSON text; brackets inside a string do not count. */
function depthOf(json: string): number {
  let depth = 0;
  let deepest = 0;
  let inString = false;
  for (let index = 0; index < json.length; index += 1) {
    const character = json[index];
    if (character === '\\') index += 1;
    else if (character === '"') inString = !inString;
    else if (inString) continue;
    else if (character === '[' || character === '{') deepest = Math.max(deepest, ++depth);
    else if (character === ']' || character === '}') depth -= 1;
  }
  return deepest;
}

function withoutMissing(form: Record<string, string | undefined>): Record<string, string> {
  return Object.fromEntries(Object.entries(form).filter((entry): entry is [string, string] => entry[1] !== undefined));
}
