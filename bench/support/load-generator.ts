import { fork } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { fileURLToPath } from 'node:url';
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
  const child = fork(fileURLToPath(import.meta.url), [JSON.stringify(load)], { execArgv: [] });
  const [result] = await once(child, 'message');
  await once(child, 'exit');
  return result as LoadResult;
}

const ATHLETES = 500;
const OK = Buffer.from('HTTP/1.1 200');

if (process.send && process.argv[1] === fileURLToPath(import.meta.url)) {
  const load = JSON.parse(process.argv[2] ?? '{}') as Load;
  process.send(await generate(load));
  process.disconnect();
}

async function generate(load: Load): Promise<LoadResult> {
  const latencies: number[] = [];
  let failed = 0;
  let nextId = load.firstId;
  const startedAt = performance.now();
  const endAt = startedAt + load.durationMs;

  const runConnection = (): Promise<void> =>
    new Promise((resolve, reject) => {
      const socket = connect(load.port, '127.0.0.1');
      socket.setNoDelay(true);
      let sentAt = 0;
      let received = Buffer.alloc(0);
      const send = () => {
        if (performance.now() >= endAt) {
          socket.end();
          resolve();
          return;
        }
        sentAt = performance.now();
        socket.write(delivery(load.path, nextId));
        nextId += 1;
      };
      socket.on('connect', send);
      socket.on('error', reject);
      socket.on('data', (chunk) => {
        received = received.length === 0 ? chunk : Buffer.concat([received, chunk]);
        if (!isWhole(received)) return;
        latencies.push(performance.now() - sentAt);
        if (!received.subarray(0, OK.length).equals(OK)) failed += 1;
        received = Buffer.alloc(0);
        send();
      });
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

/** A delivery of about 200 bytes, as the provider sends it. */
function delivery(path: string, id: number): string {
  const body = `{"aspect_type":"create","event_time":1790000000,"object_id":${id},"object_type":"activity","owner_id":${1_000_000 + (id % ATHLETES)},"subscription_id":120475,"updates":{"title":"Morning run around the lake"}}`;
  return `POST ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
}

function isWhole(received: Buffer): boolean {
  const end = received.indexOf('\r\n\r\n');
  if (end < 0) return false;
  const length = /content-length: (\d+)/i.exec(received.toString('latin1', 0, end))?.[1];
  return received.length >= end + 4 + Number(length ?? 0);
}
