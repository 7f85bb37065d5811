import { Writable } from 'node:stream';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { TestClock } from 'pg-boss';
import winston from 'winston';
import { metric } from '../support/metric.ts';
import { type Rig, startRig } from '../support/service.ts';
import { until } from '../support/until.ts';

let rig: Rig;
let athleteId: string;
const said: string[] = [];
/** The activities whose runs ended without settling their jobs. */
const unsettled: (string | undefined)[] = [];
beforeAll(async () => {
  const stream = new Writable({
    objectMode: true,
    write: (line: { component: string; message: string; activityId?: string }, _encoding, done) => {
      said.push(`${line.component}: ${line.message}`);
      if (line.message.startsWith('run not settled')) unsettled.push(line.activityId);
      done();
    },
  });
  rig = await startRig({
    proxied: true,
    logger: winston.createLogger({ transports: [new winston.transports.Stream({ stream })] }),
    env: { FETCH_STALE_AFTER_MS: '1000', FETCH_BACKOFF_BASE_MS: '50', FETCH_TIMEOUT_MS: '500' },
  });
  rig.simulator.subscribe(`${rig.service.url}/api/provider/webhook`);
  athleteId = await rig.connectAthlete();
});
afterAll(() => rig.close());
afterEach(() => rig.proxy.restore());

const untilReady = async () => {
  while ((await fetch(`${rig.service.url}/readyz`)).status !== 200)
    await new Promise((resolve) => setTimeout(resolve, 20));
};

describe('while the database is unreachable', () => {
  it('a delivery is answered 503 with Retry-After, so that the provider delivers again; then it is stored', async () => {
    const { id } = rig.simulator.addActivity(athleteId);
    const event = {
      object_id: id,
      owner_id: athleteId,
      aspect_type: 'create',
      object_type: 'activity',
      subscription_id: 1,
      event_time: 1_700_000_000,
    };
    const unavailable = (object_type: string) =>
      metric(
        rig.service.url,
        `activity_sync_webhook_events_total{object_type="${object_type}",aspect_type="create",result="unavailable"}`,
      );
    expect(await unavailable('activity')).toBe(0);
    rig.proxy.cut();
    for (const body of [event, { ...event, object_type: 'athlete', updates: { authorized: 'false' } }]) {
      const response = await rig.post(body);
      expect(response.status).toBe(503);
      expect(response.headers.get('content-type')).toMatch('application/problem+json');
      expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0);
      expect(await response.json()).toMatchObject({ status: 503, detail: expect.stringContaining('try again') });
    }
    for (const object_type of ['activity', 'athlete']) expect(await unavailable(object_type)).toBe(1);
    rig.proxy.restore();
    expect((await rig.post(event)).status).toBe(200);
    await rig.untilJob(id, ({ outcome }) => outcome === 'stored');
  });

  it('the process is live, not ready, and ready again afterwards', async () => {
    rig.proxy.cut();
    expect((await fetch(`${rig.service.url}/healthz`)).status).toBe(200);
    const response = await fetch(`${rig.service.url}/readyz`);
    expect(response.status).toBe(503);
    expect(await response.json()).toMatchObject({ status: 'not ready', database: expect.any(String) });
    rig.proxy.restore();
    await untilReady();
  });

  it('the validation of the callback still works: it needs no database', async () => {
    rig.proxy.cut();
    const query = new URLSearchParams({
      'hub.mode': 'subscribe',
      'hub.challenge': 'x',
      'hub.verify_token': 'verify-token-of-the-tests',
    });
    expect((await fetch(`${rig.service.url}/api/provider/webhook?${query}`)).status).toBe(200);
  });

  it('a fetch whose answer cannot be stored is reclaimed as stale, and stored later', async () => {
    await untilReady();
    const { id } = rig.simulator.addActivity(athleteId);
    const held = rig.simulator.faults.add({ kind: 'hold', match: { activityId: id }, times: 1 });
    await rig.simulator.deliver({ object_id: id, owner_id: athleteId });
    await held.held;
    rig.proxy.cut();
    held.release();
    await rig.simulator.waitForCall((call) => call.activityId === id);
    await until(() => unsettled.includes(id), 'the end of the run that could not store its answer');
    rig.proxy.restore();
    await untilReady();
    expect(await rig.untilJob(id, ({ outcome }) => outcome === 'stored')).toMatchObject({ attempts: 1 });
  });
});

describe('what counts as an unexpected error', () => {
  const counted = async ({ service }: Rig) =>
    (await service.metrics.errors.get()).values.filter(({ value }) => value > 0);

  it('is not that the connection for notifications is lost, that jobs cannot be rescued, or that a run cannot be settled', async () => {
    said.length = 0;
    rig.proxy.cut();
    for (const line of ['notify: LISTEN connection failed, retrying', 'repeater: rescue failed, retrying'])
      await until(() => said.includes(line), `a line "${line}"`);
    expect(await counted(rig)).toEqual([]);
  });

  it('is not that the maintenance of pg-boss finds no database', async () => {
    const clock = new TestClock('2025-05-06T12:05:00Z');
    const clocked = await startRig({ proxied: true, clock, simulator: { now: () => clock.now() } });
    try {
      const reported: string[] = [];
      clocked.service.boss.on('error', ({ message }) => reported.push(message));
      await clock.setTime(clock.now() + 2 * 60_000);
      clocked.proxy.cut();
      await clock.tick(0); // every timer that fell due fires once
      await until(() => reported.length > 0, 'an error of pg-boss');
      expect(await counted(clocked)).toEqual([]);
    } finally {
      clocked.proxy.restore();
      await clocked.close();
    }
  });
});

describe('a database that does not answer (half-open connections)', () => {
  it('makes the process not ready, and causes no 200 for a delivery', async () => {
    await untilReady();
    rig.proxy.hold();
    const response = await fetch(`${rig.service.url}/readyz`);
    expect(response.status).toBe(503);
    rig.proxy.release();
    rig.proxy.cut();
    rig.proxy.restore();
    await untilReady();
  });
});
