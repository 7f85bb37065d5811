import { Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import got, { RequestError } from 'got';
import { ForbiddenAddressError, type OutboundGuard } from './outbound-address.ts';

/** The result of a call: an answer, or why there was none. */
export interface OutboundAnswer {
  status: number | undefined;
  error: string | undefined;
  /** The first kilobyte of the body. */
  answer: string | undefined;
  durationMs: number;
}

/** Calls addresses chosen by others. */
export interface OutboundClient {
  /** Posts a body. It never throws; a redirect is an answer like any other. */
  post(url: string, body: string, headers: Record<string, string>, signal: AbortSignal): Promise<OutboundAnswer>;
  close(): void;
}

const READ_BYTES = 64 * 1024;
const KEPT_BYTES = 1024;
const IDLE_MS = 30_000;

/** @param options.timeoutMs for the whole call, reading the answer included */
export function createOutboundClient(options: {
  guard: OutboundGuard;
  timeoutMs: number;
  userAgent: string;
}): OutboundClient {
  const { guard, timeoutMs } = options;
  // The guard checks every new connection, whatever the name resolved to before.
  const settings = { keepAlive: true, timeout: IDLE_MS, lookup: guard.lookup };
  const agents = { http: new HttpAgent(settings), https: new HttpsAgent(settings) };
  const client = got.extend({
    agent: agents,
    timeout: { request: timeoutMs },
    retry: { limit: 0 },
    followRedirect: false,
    throwHttpErrors: false,
    decompress: false,
    headers: { 'user-agent': options.userAgent },
  });

  const call = async (
    url: string,
    body: string,
    headers: Record<string, string>,
    signal: AbortSignal,
  ): Promise<{ status: number; answer: string }> => {
    guard.checkForm(url);
    const stream = client.stream.post(url, { body, headers, signal });
    const chunks: Buffer[] = [];
    let status = 0;
    let bytes = 0;
    stream.on('response', ({ statusCode }: { statusCode: number }) => {
      status = statusCode;
    });
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      if (bytes < KEPT_BYTES) chunks.push(chunk);
      bytes += chunk.length;
      if (bytes > READ_BYTES) break; // which also closes the connection
    }
    return {
      status,
      answer: Buffer.concat(chunks).subarray(0, KEPT_BYTES).toString('utf8').replaceAll('\0', '\ufffd'),
    };
  };

  return {
    post: async (url, body, headers, signal) => {
      const startedAt = performance.now();
      const took = () => performance.now() - startedAt;
      try {
        return { ...(await call(url, body, headers, signal)), error: undefined, durationMs: took() };
      } catch (error) {
        return { status: undefined, answer: undefined, error: reasonOf(error, timeoutMs), durationMs: took() };
      }
    },
    close: () => {
      agents.http.destroy();
      agents.https.destroy();
    },
  };
}

function reasonOf(error: unknown, timeoutMs: number): string {
  if (error instanceof ForbiddenAddressError) return error.message;
  if (!(error instanceof RequestError)) return String(error);
  if (error.cause instanceof ForbiddenAddressError) return error.cause.message;
  if (error.code === 'ETIMEDOUT') return `no answer within ${timeoutMs / 1000} s`;
  return `no answer (${error.code ?? error.message}): ${error.message}`.slice(0, 300);
}
