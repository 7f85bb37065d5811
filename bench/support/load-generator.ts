import { connect } from 'node:net';
import { runsAsOtherSelf, startOtherSelf } from './child-process.ts';
import { percentile } from './figures.ts';

/** Webhook deliveries over kept-alive connections, each sending its next one when the last is answered. */
export interface Load {
  port: number;
  path: string;
  connections: number;
  durationMs: number;
  /** Activities' ids count up from here: every delivery is of another activity. */
  firstId: number;
}

export interface LoadResult {
  perSecond: number;
  p50Ms: number;
  p99Ms: number;
  /** Answers other than 200. */
  failed: number;
  answered: number;
}

/** Runs the load from a process of its own. Bare sockets: the less it costs, the more is left to the server. */
export async function runLoad(load: Load): Promise<LoadResult> {
  const other = startOtherSelf(import.meta.url, [JSON.stringify(load)]);
  const result = await other.nextMessage<LoadResult>();
  await other.stop();
  return result;
}

const ATHLETES = 500;
const OK = 'HTTP/1.1 200';
const LENGTH = /content-length: (\d+)/i;

if (runsAsOtherSelf(import.meta.url)) {
  const load = JSON.parse(process.argv[2] ?? '{}') as Load;
  process.send?.(await generate(load));
}

async function generate(load: Load): Promise<LoadResult> {
  const latencies: number[] = [];
  let failed = 0;
  let nextId = load.firstId;
  const startedAt = performance.now();
  const endAt = startedAt + load.durationMs;

  const requests = deliveries(load.path);
  const runConnection = (): Promise<void> =>
    new Promise((resolve, reject) => {
      let sentAt = 0;
      let received = '';
      const socket = connect({
        port: load.port,
        host: '127.0.0.1',
        noDelay: true,
        // One buffer for every answer: what the generator does not use is left to the server.
        onread: {
          buffer: Buffer.alloc(16 * 1024),
          callback: (length, buffer) => {
            received += (buffer as Buffer).toString('latin1', 0, length);
            if (!isWhole(received)) return true;
            latencies.push(performance.now() - sentAt);
            if (!received.startsWith(OK)) failed += 1;
            received = '';
            send();
            return true;
          },
        },
      });
      const send = () => {
        sentAt = performance.now();
        if (sentAt >= endAt) {
          socket.end();
          resolve();
          return;
        }
        socket.write(requests(nextId), 'latin1');
        nextId += 1;
      };
      socket.on('connect', send);
      socket.on('error', reject);
    });
  await Promise.all(Array.from({ length: load.connections }, runConnection));
  const seconds = (performance.now() - startedAt) / 1000;
  return {
    perSecond: latencies.length / seconds,
    p50Ms: percentile(latencies, 0.5),
    p99Ms: percentile(latencies, 0.99),
    failed,
    answered: latencies.length,
  };
}

/** Deliveries of about 200 bytes, as the provider sends them. */
function deliveries(path: string): (id: number) => string {
  const body = (id: number) =>
    `{"aspect_type":"create","event_time":1790000000,"object_id":${id},"object_type":"activity","owner_id":${1_000_000 + (id % ATHLETES)},"subscription_id":120475,"updates":{"title":"Morning run around the lake"}}`;
  const head = `POST ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: `;
  return (id) => {
    const text = body(id);
    return `${head}${text.length}\r\n\r\n${text}`;
  };
}

function isWhole(received: string): boolean {
  const end = received.indexOf('\r\n\r\n');
  if (end < 0) return false;
  return received.length >= end + 4 + Number(LENGTH.exec(received)?.[1] ?? 0);
}
