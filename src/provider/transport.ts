import { Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import got, { type Method, RequestError, TimeoutError } from 'got';
import type { z } from 'zod';
import { parseJsonKeepingInt64 } from '../domain/int64.ts';
import { errorOfAnswer, ProviderError } from './errors.ts';
import { type RateUsage, readRateHeaders } from './rate-headers.ts';

/** What the transport tells about each call; `code` is a status, or network, timeout, unreadable. */
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
  /** What a 2xx body must be; undefined: the body is not read. */
  schema?: S;
}

export interface ProviderAnswer<T> {
  value: T;
  /** The body as it came. */
  body: string;
}

/** The one way out to the provider: only to its origin, no redirects, no retries of its own. */
export interface Transport {
  /** @throws ProviderError */
  send<S extends z.ZodType>(request: ProviderRequest<S>, signal?: AbortSignal): Promise<ProviderAnswer<z.output<S>>>;
  close(): void;
}

const MAX_BODY_BYTES = 32 * 1024 * 1024;

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
      const tooLarge = new AbortController();
      let code = 'network';
      try {
        const sent = client(`${options.origin}${request.path}`, {
          method: request.method,
          ...(request.query ? { searchParams: request.query } : {}),
          ...(request.form ? { form: withoutMissing(request.form) } : {}),
          ...(request.accessToken ? { headers: { authorization: `Bearer ${request.accessToken}` } } : {}),
          signal: signal ? AbortSignal.any([signal, tooLarge.signal]) : tooLarge.signal,
        });
        sent.on('downloadProgress', ({ transferred }) => {
          if (transferred > MAX_BODY_BYTES) tooLarge.abort();
        });
        const { statusCode, headers, body } = await sent;
        code = String(statusCode);
        const usage = request.path.startsWith('/api/v3/') ? readRateHeaders(headers) : undefined;
        if (usage) options.observer.usage(usage, performance.now() - startedAt);
        if (statusCode < 200 || statusCode > 299) {
          throw errorOfAnswer(what, {
            status: statusCode,
            body,
            retryAfter: headers['retry-after'],
            date: headers.date,
            now: options.now(),
          });
        }
        if (request.schema === undefined) return { value: undefined as never, body };
        const value = readBody(what, body, request.schema);
        if (value instanceof ProviderError) {
          code = 'unreadable';
          throw value;
        }
        return { value, body };
      } catch (error) {
        if (error instanceof ProviderError) throw error;
        if (error instanceof TimeoutError) {
          code = 'timeout';
          throw new ProviderError('TIMEOUT', `${what}: no answer within ${options.timeoutMs} ms`, { cause: error });
        }
        if (tooLarge.signal.aborted) {
          code = 'unreadable';
          throw new ProviderError('UNREADABLE', `${what}: the answer is larger than ${MAX_BODY_BYTES} bytes`);
        }
        const reason = error instanceof RequestError ? (error.code ?? error.message) : String(error);
        throw new ProviderError('NETWORK', `${what}: no answer (${reason})`, { cause: error });
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

function readBody<S extends z.ZodType>(what: string, body: string, schema: S): z.output<S> | ProviderError {
  let parsed: unknown;
  try {
    parsed = parseJsonKeepingInt64(body);
  } catch (error) {
    return new ProviderError('UNREADABLE', `${what}: the body is not JSON (${body.length} characters)`, {
      cause: error,
    });
  }
  const result = schema.safeParse(parsed);
  if (result.success) return result.data;
  const issue = result.error.issues[0];
  return new ProviderError(
    'UNREADABLE',
    `${what}: the body lacks what the API promises (${issue?.path.join('.')}: ${issue?.message})`,
  );
}

function withoutMissing(form: Record<string, string | undefined>): Record<string, string> {
  return Object.fromEntries(Object.entries(form).filter((entry): entry is [string, string] => entry[1] !== undefined));
}
