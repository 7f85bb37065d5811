import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { until } from './until.ts';

/** A call that an endpoint of the application got. */
export interface ReceivedCall {
  path: string;
  headers: IncomingHttpHeaders;
  text: string;
  // biome-ignore lint/suspicious/noExplicitAny: the tests look at whatever the body has
  body: any;
}

/** An application's server that is called. */
export interface Receiver {
  url: string;
  calls: ReceivedCall[];
  /** What it answers; undefined hangs until the receiver is closed. 200 unless changed. */
  answer: (call: ReceivedCall) => { status: number; body?: string; headers?: Record<string, string> } | undefined;
  /** Resolves when that many calls have come. */
  untilCalls(count: number): Promise<void>;
  close(): Promise<void>;
}

export async function startReceiver(): Promise<Receiver> {
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const text = Buffer.concat(chunks).toString();
      const call = { path: request.url ?? '', headers: request.headers, text, body: JSON.parse(text || 'null') };
      receiver.calls.push(call);
      const answer = receiver.answer(call);
      if (answer) response.writeHead(answer.status, answer.headers).end(answer.body ?? '');
    });
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const receiver: Receiver = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    calls: [],
    answer: () => ({ status: 200 }),
    untilCalls: (count) => until(() => receiver.calls.length >= count, `${count} calls`),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
  return receiver;
}
