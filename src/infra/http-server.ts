import {
  createServer,
  type IncomingMessage,
  type OutgoingHttpHeader,
  type OutgoingHttpHeaders,
  type RequestListener,
  ServerResponse,
  STATUS_CODES,
} from 'node:http';
import type { AddressInfo, Socket } from 'node:net';

const CLOSE_DEADLINE_MS = 3000;

/** What clients may hold at a time; docs/security.md lists it. */
export const LIMITS = {
  /** Connections; another one replaces the one that has waited longest without a complete request. */
  connections: 2000,
  /** Announced bytes of incomplete bodies; beyond it the oldest of them is closed. */
  unfinishedBodyBytes: 8 * 1024 * 1024,
  /** For the headers, and for the complete request. */
  headersMs: 5000,
  requestMs: 10_000,
  /** How late a request that took too long may be noticed. */
  checkEveryMs: 1000,
};
// A body that announces more, or no length, is read no further than about here.
const MAX_COUNTED_BYTES = 64 * 1024;

type Headers = OutgoingHttpHeaders | OutgoingHttpHeader[];

/** The headers of answers from outside the app, such as the 400 to a request that is not HTTP. */
const BARE_HEADERS: Record<string, string> = {
  'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'",
  'Referrer-Policy': 'no-referrer',
  'Strict-Transport-Security': 'max-age=31536000; includeSubDomains',
  'X-Content-Type-Options': 'nosniff',
  'X-Frame-Options': 'SAMEORIGIN',
};

/** A listening HTTP server. */
export interface HttpServer {
  port: number;
  /** No new connections; current requests are answered within 3 s, idle connections closed. */
  close(): Promise<void>;
}

/** The port cannot be listened on; the message says why and what to do. */
export class ListenError extends Error {
  override name = 'ListenError';
  readonly code = 'LISTEN';
}

/**
 * Listens within LIMITS: new connections replace slow or silent ones, so that a complete request is always
 * served. Every answer has the security headers, whichever layer made it.
 * @param port 0 takes a free one
 * @throws ListenError
 */
export async function listen(app: RequestListener, port: number, limits: typeof LIMITS = LIMITS): Promise<HttpServer> {
  let closing = false;
  /** While the server closes, each answer is the last on its connection: what a proxy sends after it would be cut off. */
  class Answer extends ServerResponse {
    override writeHead(status: number, headers?: Headers): this;
    override writeHead(status: number, reason?: string, headers?: Headers): this;
    // Node calls this for every answer's head, also for one written implicitly.
    override writeHead(status: number, reason?: string | Headers, headers?: Headers): this {
      if (closing) this.setHeader('Connection', 'close');
      if (!this.hasHeader('X-Content-Type-Options'))
        for (const [name, value] of Object.entries(BARE_HEADERS)) this.setHeader(name, value);
      return super.writeHead(status, reason as string, headers);
    }
  }
  const waiting = createWaitingList(limits);
  const serve: RequestListener = (request, response) => {
    waiting.asked(request);
    response.once('close', () => waiting.answered(request.socket));
    app(request, response);
  };
  const server = createServer(
    {
      ServerResponse: Answer,
      headersTimeout: limits.headersMs,
      requestTimeout: limits.requestMs,
      connectionsCheckingInterval: limits.checkEveryMs,
    },
    serve,
  );
  server.on('checkExpectation', serve);
  server.on('connection', waiting.connected);
  server.on('clientError', refuse);
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      const why = error.code === 'EADDRINUSE' ? 'another program listens there' : error.message;
      reject(new ListenError(`Cannot listen on port ${port}: ${why}. Set PORT to a free one.`, { cause: error }));
    });
    server.listen(port, resolve);
  });
  return {
    port: (server.address() as AddressInfo).port,
    close: () =>
      new Promise<void>((resolve) => {
        const deadline = setTimeout(() => server.closeAllConnections(), CLOSE_DEADLINE_MS);
        server.close(() => {
          clearTimeout(deadline);
          resolve();
        });
        server.closeIdleConnections();
        closing = true;
      }),
  };
}

/** Connections without a complete request, with the bytes that they announced, longest-waiting first. */
function createWaitingList(limits: typeof LIMITS) {
  const open = new Set<Socket>();
  const waiting = new Map<Socket, number>();
  let bytes = 0;

  const leave = (socket: Socket): void => {
    bytes -= waiting.get(socket) ?? 0;
    waiting.delete(socket);
  };
  const enter = (socket: Socket, announced: number): void => {
    leave(socket);
    if (!open.has(socket)) return;
    waiting.set(socket, announced);
    bytes += announced;
    for (const [oldest, held] of waiting) {
      const tooMany = open.size > limits.connections;
      if (!tooMany && bytes <= limits.unfinishedBodyBytes) return;
      if (tooMany || held > 0) close(oldest);
    }
  };
  const close = (socket: Socket): void => {
    leave(socket);
    open.delete(socket);
    socket.destroy();
  };

  return {
    connected: (socket: Socket): void => {
      open.add(socket);
      socket.once('close', () => close(socket));
      enter(socket, 0);
    },
    answered: (socket: Socket): void => enter(socket, 0),
    asked: (request: IncomingMessage): void => {
      const { socket, headers } = request;
      const length = headers['transfer-encoding'] ? MAX_COUNTED_BYTES : Number(headers['content-length'] ?? 0);
      if (length === 0) {
        leave(socket);
        return;
      }
      enter(socket, Math.min(length, MAX_COUNTED_BYTES));
      // One that was answered before its body arrived waits with no bytes, and stays on the list.
      request.once('end', () => {
        if (waiting.get(socket)) leave(socket);
      });
    },
  };
}

const STATUS_BY_CODE: Record<string, number> = {
  ERR_HTTP_REQUEST_TIMEOUT: 408,
  HPE_HEADER_OVERFLOW: 431,
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 413,
};

/** Answers requests that are malformed or too slow, which never reach the app. */
function refuse({ code = '' }: NodeJS.ErrnoException, socket: Socket & { _httpMessage?: ServerResponse }): void {
  if (!socket.writable || socket._httpMessage?.headersSent) {
    socket.destroy();
    return;
  }
  const status = STATUS_BY_CODE[code] ?? 400;
  const head = Object.entries({ ...BARE_HEADERS, Connection: 'close', 'Content-Length': '0' });
  socket.end(
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${head.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`,
  );
}
