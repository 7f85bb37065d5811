import type { IncomingHttpHeaders, IncomingMessage, RequestListener, ServerResponse } from 'node:http';

/** A delivery as it came: nothing of it is checked. */
export interface Delivery {
  headers: IncomingHttpHeaders;
  body: Buffer;
}

const JSON_TYPE = /^application\/json *(;|$)/;

/**
 * The short way of a delivery: read and answered without Express, which costs more than all that a delivery
 * needs. What is not a plain delivery, or is not accepted, goes to `app`.
 * @param accept resolves with the body of the answer 200
 * @param onBrokenOff hears of a body that ended early: nobody is left to answer to
 * @param onRefused hears why a request now goes to `app`: its body has been read, so `app` must not accept it again
 */
export function acceptPlainDeliveries(options: {
  path: string;
  maxBytes: number;
  accept: (delivery: Delivery) => Promise<object>;
  onRefused: (request: IncomingMessage, error: unknown) => void;
  onBrokenOff: () => void;
  app: RequestListener;
}): RequestListener {
  const { path, maxBytes, accept, onRefused, onBrokenOff, app } = options;
  return (request, response) => {
    if (request.url !== path || !isPlain(request, maxBytes)) {
      app(request, response);
      return;
    }
    const refuse = (error: unknown) => {
      onRefused(request, error);
      app(request, response);
    };
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.once('error', onBrokenOff);
    request.once('end', () => {
      request.off('error', onBrokenOff);
      const body = chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks);
      accept({ headers: request.headers, body }).then((answer) => answerJson(response, answer), refuse);
    });
  };
}

function isPlain({ method, headers }: IncomingMessage, maxBytes: number): boolean {
  return (
    method === 'POST' &&
    headers['content-encoding'] === undefined &&
    Number(headers['content-length']) <= maxBytes &&
    JSON_TYPE.test(headers['content-type'] ?? '')
  );
}

function answerJson(response: ServerResponse, answer: object): void {
  const body = JSON.stringify(answer);
  response.writeHead(200, {
    'Content-Type': 'application/json; charset=utf-8',
    'Content-Length': Buffer.byteLength(body),
  });
  response.end(body);
}
