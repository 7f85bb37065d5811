import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

/** A request as it reached the hostile provider. */
export interface ReceivedCall {
  method: string;
  url: string;
  headers: IncomingMessage['headers'];
  body: string;
}

/** A provider on a real HTTP server that answers with whatever a test wants. */
export interface HostileProvider {
  origin: string;
  calls: ReceivedCall[];
  answer: (call: ReceivedCall, response: ServerResponse) => void;
  close(): Promise<void>;
}

export async function startHostileProvider(): Promise<HostileProvider> {
  const server = createServer(async (request, response) => {
    const { method = '', url = '', headers } = request;
    const call = { method, url, headers, body: await text(request) };
    provider.calls.push(call);
    provider.answer(call, response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const provider: HostileProvider = {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    calls: [],
    answer: (_call, response) => answerJson(response, 200, {}),
    close: async () => {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
  return provider;
}

export function answerJson(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(typeof body === 'string' ? body : JSON.stringify(body));
}
