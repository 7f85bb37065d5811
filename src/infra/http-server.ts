import {
  createServer,
  type OutgoingHttpHeader,
  type OutgoingHttpHeaders,
  type RequestListener,
  ServerResponse,
} from 'node:http';
import type { AddressInfo } from 'node:net';

const CLOSE_DEADLINE_MS = 3000;

type Headers = OutgoingHttpHeaders | OutgoingHttpHeader[];

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
  let closing = false;
  /** While the server closes, each answer is the last on its connection: what a proxy sends after it would be cut off. */
  class Answer extends ServerResponse {
    override writeHead(status: number, headers?: Headers): this;
    override writeHead(status: number, reason?: string, headers?: Headers): this;
    // Node's way to every answer's head, also of one that is written without a call of it.
    override writeHead(status: number, reason?: string | Headers, headers?: Headers): this {
      if (closing) this.setHeader('Connection', 'close');
      return super.writeHead(status, reason as string, headers);
    }
  }
  const server = createServer({ ServerResponse: Answer }, app);
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
