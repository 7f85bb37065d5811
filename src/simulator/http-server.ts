import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { CallLog, CallRecord } from './call-log.ts';
import { type Answer, type Call, rateLimitExceeded } from './exchange.ts';
import { answerWithFault, type FaultList } from './faults.ts';
import { providerTime, type Settings } from './options.ts';
import type { Pauses } from './pauses.ts';
import type { RateWindows, Verdict } from './rate-windows.ts';
import { readFields } from './request-body.ts';
import { activityIdOf, isCounted, type Routes, route } from './router.ts';
import type { TokenRegistry } from './token-registry.ts';

const noFields: ReadonlyMap<string, string> = new Map();

/** What a call goes through on its way to the routes. */
export interface ServerParts {
  settings: Settings;
  tokens: TokenRegistry;
  windows: RateWindows;
  faults: FaultList;
  log: CallLog;
  pauses: Pauses;
  routes: Routes;
}

/** Listens on the configured port; every call is logged, counted, held against limits and faults, then answered. */
export async function startHttpServer(parts: ServerParts): Promise<{ url: string; close: () => Promise<void> }> {
  const server = createServer({ keepAliveTimeout: 60_000 }, (request, response) => {
    takeCall(parts, request, response).catch((error: unknown) => {
      if (!response.headersSent) response.writeHead(500, { 'Content-Type': 'text/plain' });
      response.end(error instanceof Error ? error.stack : String(error));
    });
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(parts.settings.port, parts.settings.host, resolve);
  });
  const { address, family, port } = server.address() as AddressInfo;
  const url = `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`;
  return { url, close: () => closeServer(server) };
}

async function takeCall(parts: ServerParts, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { settings, windows } = parts;
  const call = await readCall(parts.tokens, request);
  const now = providerTime(settings);
  const counted = isCounted(call.path);
  const verdict = counted ? windows.count(now, call.method === 'GET') : undefined;
  const record = describeCall(call, now, verdict?.windowStart ?? windows.windowStartAt(now), counted);
  const rateHeaders = counted && settings.sendRateHeaders ? windows.headers() : undefined;
  response.once('close', () => parts.log.finish(record, record.status));
  parts.log.open(record);
  if (settings.latencyMs > 0 && !call.path.startsWith('/tiles/')) await parts.pauses.wait(settings.latencyMs);
  if (verdict?.allowed === false) {
    writeAnswer(parts, response, record, refuse(settings, verdict, now), rateHeaders);
    return;
  }
  const met = parts.faults.pick(call);
  if (met === undefined) {
    const answer = route(parts.routes, call);
    writeAnswer(parts, response, record, answer instanceof Promise ? await answer : answer, rateHeaders);
    return;
  }
  const windowEnd = windows.windowStartAt(now) + settings.intervalMs;
  const answer = await answerWithFault(met, () => route(parts.routes, call), parts.pauses, windowEnd);
  const withHeaders = counted && (met.fault.rateHeaders ?? settings.sendRateHeaders);
  writeAnswer(parts, response, record, answer, withHeaders ? (rateHeaders ?? windows.headers()) : undefined);
}

async function readCall(tokens: TokenRegistry, request: IncomingMessage): Promise<Call> {
  const method = request.method ?? 'GET';
  const target = request.url ?? '/';
  const mark = target.indexOf('?');
  const path = mark < 0 ? target : target.slice(0, mark);
  const query = mark < 0 ? '' : target.slice(mark + 1);
  const fields = method === 'GET' || method === 'HEAD' ? noFields : await readFields(request);
  const { authorization } = request.headers;
  const grant = authorization?.startsWith('Bearer ') === true ? tokens.grantOf(authorization.slice(7)) : undefined;
  const refreshToken = fields.get('refresh_token');
  const owner = grant ?? (refreshToken === undefined ? undefined : tokens.peekRefreshToken(refreshToken));
  const activityId = activityIdOf(path);
  return { method, path, query, headers: request.headers, fields, grant, athleteId: owner?.athleteId, activityId };
}

function describeCall(call: Call, at: number, window: number, counted: boolean): CallRecord {
  return {
    at,
    method: call.method,
    path: call.path,
    query: counted ? call.query : '',
    athleteId: call.athleteId,
    activityId: call.activityId,
    userAgent: call.headers['user-agent'],
    status: 0,
    counted,
    window,
    answered: false,
  };
}

function refuse(settings: Settings, verdict: Verdict, nowMs: number): Answer {
  if (settings.retryAfter === 'none') return rateLimitExceeded;
  const seconds = Math.max(1, Math.ceil((verdict.openAt - nowMs) / 1_000));
  const value = settings.retryAfter === 'seconds' ? String(seconds) : new Date(verdict.openAt).toUTCString();
  return { ...rateLimitExceeded, headers: { 'Retry-After': value } };
}

function writeAnswer(
  parts: ServerParts,
  response: ServerResponse,
  record: CallRecord,
  answer: Answer,
  rateHeaders: Record<string, string> | undefined,
): void {
  if (answer.ending === 'hang') return;
  if (answer.ending === 'cut') {
    response.destroy();
    return;
  }
  const headers: Record<string, string | number> = {
    Date: httpDate(providerTime(parts.settings)),
    ...(answer.type === undefined ? {} : { 'Content-Type': answer.type }),
    ...rateHeaders,
    ...answer.headers,
  };
  if (answer.status !== 204) headers['Content-Length'] = Buffer.byteLength(answer.body);
  record.status = answer.status;
  response.writeHead(answer.status, headers);
  if (answer.ending === 'cutBody') {
    response.write(answer.body.slice(0, Math.floor(answer.body.length / 2)), () => response.destroy());
    return;
  }
  response.end(answer.body);
  parts.log.finish(record, answer.status);
}

let datedSecond = -1;
let datedText = '';

/** The Date header of the provider's clock, put together once a second. */
function httpDate(nowMs: number): string {
  const second = Math.floor(nowMs / 1_000);
  if (second !== datedSecond) {
    datedSecond = second;
    datedText = new Date(nowMs).toUTCString();
  }
  return datedText;
}

function closeServer(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}
