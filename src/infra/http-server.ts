import { createServer, type RequestListener, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

const CLOSE_DEADLINE_MS = 3000;

/** A listening HTTP server. */
export interface HttpServer {
  port: number;
  /** No new connections; requests under way are answered within 3 s, idle connections closed. */
  close(): Promise<void>;
}

/** The port cannot be listened on; the message says why and what to do. */
export class ListenError extends Error {
  override name = 'ListenError';
  readonly code = 'LISTEN';
}

/**
 * @param port 0 takes a free one
 * @throws ListenError
 */
export async function listen(app: RequestListener, port: number): Promise<HttpServer> {
  const unanswered = new Set<ServerResponse>();
  let closing = false;
  const server = createServer((request, response) => {
    unanswered.add(response);
    response.once('close', () => unanswered.delete(response));
    if (closing) askForAnother(response);
    app(request, response);
  });
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
        for (const response of unanswered) askForAnother(response);
      }),
  };
}

/** This answer is the last on its connection: what a proxy sends after it must not be cut off with the process. */
function askForAnother(response: ServerResponse): void {
  if (!response.headersSent) response.setHeader('Connection', 'close');
}
