import { execFileSync } from 'node:child_process';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { readEvents } from '../support/event-reader.ts';
import { openRawConnections, type RawConnections } from '../support/raw-connections.ts';
import { ADMIN_TOKEN, cookieOf, READ_TOKEN, type Rig, startRig, testEnvironment } from '../support/service.ts';
import { freePort, type ServiceProcess, startServiceProcess } from '../support/service-process.ts';
import { signIn } from '../support/sign-in.ts';
import { until } from '../support/until.ts';

const PATIENCE_MS = 120_000; // for connections by the thousand on a busy machine

let rig: Rig;
let service: ServiceProcess;
let port: number;
let raw: RawConnections | undefined;
beforeAll(async () => {
  rig = await startRig({ env: { SERVICE_ROLES: 'web' } });
  port = await freePort();
  const roles = { SERVICE_ROLES: 'web', PORT: String(port), DATABASE_URL: rig.database.url };
  service = startServiceProcess(testEnvironment(rig.simulator.url, roles), { quiet: true });
  await service.ready();
});
afterAll(async () => {
  await service.end('SIGTERM');
  await rig.close();
});

afterEach(() => raw?.close());

const rssMb = () =>
  Number(execFileSync('ps', ['-o', 'rss=', '-p', String(service.child.pid)], { encoding: 'utf8' })) / 1024;
const timed = async (path: string, init: RequestInit = {}) => {
  const startedAt = performance.now();
  const answer = await fetch(`${service.url}${path}`, init);
  await answer.arrayBuffer();
  return { status: answer.status, ms: performance.now() - startedAt };
};
const deliver = (id: number) =>
  timed('/api/provider/webhook', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      object_type: 'activity',
      object_id: id,
      aspect_type: 'create',
      owner_id: 7,
      subscription_id: 1,
      event_time: Math.floor(Date.now() / 1000),
    }),
  });
/** The middle one of five: this machine may have other things to do for the moment of one. */
const healthMs = async () => {
  const times = [];
  for (let n = 0; n < 5; n += 1) times.push((await timed('/healthz')).ms);
  return times.sort((a, b) => a - b)[2] as number;
};

describe('4,000 half-sent bodies of 64 KB', () => {
  it(
    'take no more than 128 MB, and neither a delivery nor the probe waits for them',
    async () => {
      raw = openRawConnections(port);
      expect((await deliver(1)).status).toBe(200);
      const idleMb = rssMb();
      let highestMb = 0;
      let slowestMs = 0;
      const half = Buffer.concat([
        Buffer.from(
          'POST /api/provider/webhook HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 65536\r\n\r\n',
        ),
        Buffer.alloc(65_535, ' '),
      ]);
      for (let n = 1; n <= 4000; n += 1) {
        await raw.open(half);
        if (n % 500 !== 0) continue;
        highestMb = Math.max(highestMb, rssMb());
        slowestMs = Math.max(slowestMs, await healthMs());
        expect((await deliver(n)).status).toBe(200);
      }
      process.stdout.write(
        `4,000 half bodies: ${Math.round(highestMb - idleMb)} MB above idle, /healthz ${Math.round(slowestMs)} ms\n`,
      );
      expect(highestMb - idleMb).toBeLessThan(128);
      expect(slowestMs).toBeLessThan(250);
    },
    PATIENCE_MS,
  );
});

describe('more connections than are served', () => {
  it(
    'leave the probe and deliveries in time, and the rest of them is closed',
    async () => {
      raw = openRawConnections(port);
      for (let n = 1; n <= 3000; n += 1) await raw.open(n % 2 ? 'GET / HTTP/1.1\r\n' : '');
      expect(await healthMs()).toBeLessThan(250);
      expect((await deliver(5001)).status).toBe(200);
      const connections = raw;
      await until(() => connections.alive <= 2000, 'the end of those that are too many');
    },
    PATIENCE_MS,
  );
});

describe('event streams', () => {
  it(
    'are limited for each token and session; the admin token gets one when all others are taken',
    async () => {
      const open: { close(): Promise<void> }[] = [];
      const status = async (headers: Record<string, string>) => {
        const answer = await fetch(`${service.url}/api/admin/events`, { headers });
        await answer.body?.cancel();
        return answer.status;
      };
      const take = async (headers: Record<string, string>, count: number) => {
        for (let n = 0; n < count; n += 1) open.push(await readEvents(`${service.url}/api/admin/events`, headers));
      };
      const read = { authorization: `Bearer ${READ_TOKEN}` };
      await take(read, 50);
      expect(await status(read)).toBe(503);
      for (let n = 0; n < 9; n += 1) await take({ cookie: cookieOf(await signIn(service.url, READ_TOKEN)) }, 50);
      expect(await status({ cookie: cookieOf(await signIn(service.url, ADMIN_TOKEN)) })).toBe(503);
      await take({ authorization: `Bearer ${ADMIN_TOKEN}` }, 1);
      expect(await status({ authorization: `Bearer ${ADMIN_TOKEN}` })).toBe(503);
      expect(await healthMs()).toBeLessThan(250);
      for (const reader of open) await reader.close();
    },
    PATIENCE_MS,
  );
});
