import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';

/** An answer, or status 0 and why there is none. */
export interface Reply {
  status: number;
  body: string;
  error?: string;
}

/** Sends the provider's own requests (handshakes and events) over connections that are kept open. */
export class OutboundClient {
  readonly #http = new HttpAgent({ keepAlive: true, maxSockets: 256 });
  readonly #https = new HttpsAgent({ keepAlive: true, maxSockets: 256 });

  /** Sends one request and never rejects. A kept connection that proves dead is replaced at once. */
  async send(
    method: string,
    url: string,
    headers: Record<string, string>,
    body: string,
    timeoutMs: number,
  ): Promise<Reply> {
    const first = await this.#exchange(method, url, headers, body, timeoutMs);
    return first.stale ? this.#exchange(method, url, headers, body, timeoutMs) : first;
  }

  close(): void {
    this.#http.destroy();
    this.#https.destroy();
  }

  #exchange(
    method: string,
    url: string,
    headers: Record<string, string>,
    body: string,
    timeoutMs: number,
  ): Promise<Reply & { stale: boolean }> {
    return new Promise((resolve) => {
      const secure = url.startsWith('https:');
      const options = {
        method,
        headers: { ...headers, 'User-Agent': 'activity-provider-simulator', 'Content-Length': Buffer.byteLength(body) },
        agent: secure ? this.#https : this.#http,
      };
      const fail = (error: Error) => {
        clearTimeout(timer);
        const stale = request.reusedSocket && 'code' in error && error.code === 'ECONNRESET';
        resolve({ status: 0, body: '', error: error.message, stale });
      };
      const request = (secure ? httpsRequest : httpRequest)(url, options, (response) => {
        readText(response).then((text) => {
          clearTimeout(timer);
          resolve({ status: response.statusCode ?? 0, body: text, stale: false });
        }, fail);
      });
      const timer = setTimeout(() => request.destroy(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs);
      request.on('error', fail);
      request.end(body);
    });
  }
}

async function readText(response: IncomingMessage): Promise<string> {
  let text = '';
  response.setEncoding('utf8');
  for await (const chunk of response) text += chunk;
  return text;
}
