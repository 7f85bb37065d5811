import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import express, { type Request, type RequestHandler } from 'express';
import { type AddRoute, type Answer, type Handler, rateLimitExceeded, unauthorized, unknownPath } from './answer.ts';
import type { CallLog, CallRecord } from './call-log.ts';
import { answerWithFault, type FaultList } from './faults.ts';
import type { RateWindows } from './rate-windows.ts';
import { pause, providerTime, type Settings } from './settings.ts';
import type { TokenRegistry } from './token-registry.ts';

/** What a call goes through on its way to its handler. */
interface ServerParts {
  settings: Settings;
  tokens: TokenRegistry;
  windows: RateWindows;
  faults: FaultList;
  log: CallLog;
  closing: AbortSignal;
}

/** Listens on the configured port; every call is logged, counted, held against limits and faults, then answered. */
export async function startHttpServer(
  parts: ServerParts,
  addRoutes: (add: AddRoute) => void,
): Promise<{ url: string; close: () => Promise<void> }> {
  const { host, port } = parts.settings;
  const app = express();
  app.disable('x-powered-by').enable('case sensitive routing').enable('strict routing');
  app.use(express.urlencoded({ limit: '1mb' }), express.json({ limit: '1mb' }));
  addRoutes((method, path, handler) => app[method](path, takeCall(parts, handler)));
  app.use(takeCall(parts, (request, grant) => (isApi(request.path) && !grant ? unauthorized : unknownPath)));
  const server = createServer({ keepAliveTimeout: 60_000 }, app);
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, resolve);
  });
  return {
    url: `http://${host}:${(server.address() as AddressInfo).port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function takeCall({ settings, tokens, windows, faults, log, closing }: ServerParts, handler: Handler): RequestHandler {
  return async (request, response) => {
    const { authorization } = request.headers;
    const grant = authorization?.startsWith('Bearer ') === true ? tokens.grantOf(authorization.slice(7)) : undefined;
    const now = providerTime(settings);
    const isCounted = isApi(request.path);
    const isAllowed = !isCounted || windows.count(now, request.method === 'GET');
    const window = windows.windowStartAt(now);
    const owner = grant ?? tokens.peekRefreshToken(request.body?.refresh_token);
    const record = describeCall(request, now, window, owner?.athleteId);
    const rateHeaders = isCounted ? windows.headers() : {};
    response.once('close', () => log.finish(record, record.status));
    log.open(record);
    if (!request.path.startsWith('/tiles/')) await pause(settings.latencyMs, closing);
    const usual = () => handler(request, grant);
    let answer: Answer = rateLimitExceeded;
    if (isAllowed) {
      const fault = faults.pick(record);
      const windowEnd = window + settings.intervalMs;
      answer = await (fault === undefined ? usual() : answerWithFault(fault, usual, closing, windowEnd));
    }
    write(response, record, answer, { Date: new Date(providerTime(settings)).toUTCString(), ...rateHeaders });
    if (answer.ending === undefined) log.finish(record, answer.status);
  };
}

/** Whether a call uses up the rate budget and needs a token: all of the API except the push subscriptions. */
function isApi(path: string): boolean {
  return path.startsWith('/api/v3/') && !path.startsWith('/api/v3/push_subscriptions');
}

function describeCall(request: Request, at: number, window: number, athleteId: string | undefined): CallRecord {
  const { method, path } = request;
  const counted = isApi(path);
  return {
    at,
    method,
    path,
    query: counted ? request.url.slice(path.length + 1) : '',
    athleteId,
    activityId: /^\/api\/v3\/activities\/(\d{1,19})$/.exec(path)?.[1],
    userAgent: request.headers['user-agent'],
    status: 0,
    counted,
    window,
    answered: false,
  };
}

function write(response: ServerResponse, record: CallRecord, answer: Answer, headers: Record<string, string>): void {
  const { status, body, ending } = answer;
  if (ending === 'hang') return;
  if (ending === 'cut') {
    response.destroy();
    return;
  }
  record.status = status;
  response.writeHead(status, {
    ...headers,
    ...(answer.type === undefined ? {} : { 'Content-Type': answer.type }),
    ...(status === 204 ? {} : { 'Content-Length': Buffer.byteLength(body) }),
    ...answer.headers,
  });
  if (ending === 'cutBody') response.write(body.slice(0, Math.floor(body.length / 2)), () => response.destroy());
  else response.end(body);
}
