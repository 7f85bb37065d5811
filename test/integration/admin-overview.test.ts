import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { ask, readDescription } from '../support/admin.ts';
import { type ClockedRig, startClockedRig } from '../support/clocked-rig.ts';
import { KNOWN_SUBSCRIPTIONS, startRig } from '../support/service.ts';
import { until } from '../support/until.ts';

let rig: ClockedRig;

beforeAll(async () => {
  rig = await startClockedRig({ SERVICE_ROLES: 'web,fetch' });
  rig.simulator.subscribe(`${rig.service.url}/api/provider/webhook`);
});
afterAll(() => rig.close());

const overview = async () => (await ask(rig, 'GET', '/api/admin/overview')).body;

/** Lets the process write its history until the overview shows what is looked for. */
async function untilOverview(fits: (body: Awaited<ReturnType<typeof overview>>) => boolean) {
  for (let round = 0; round < 100; round += 1) {
    await rig.advance(15_000);
    const body = await overview();
    if (fits(body)) return body;
  }
  throw new Error(`The overview never got there: ${JSON.stringify(await overview())}`);
}

describe('GET /api/admin/overview and /api/admin/history', () => {
  it('show what was done, how fast, and since when the provider has been failing', async () => {
    const athleteId = await rig.connectAthlete();
    const { id } = await rig.simulator.createActivityAndNotify(
      athleteId,
      {},
      { event_time: Math.floor(rig.clock.now() / 1000) },
    );
    await rig.untilJob(id, (job) => job.outcome === 'stored');
    const body = await untilOverview(({ lastHour }) => lastHour.finished.stored === 1);
    expect(body).toMatchObject({
      stats: { done: 1, total: 1 },
      oldestDueS: { webhook: 0, manual: 0, polling: 0 },
      budget: { used: expect.any(Number), waiting: { turn: 0, budget: 0 } },
      athletes: { healthy: 1, reconnect: 0, scope: 0 },
      lastWebhookAt: expect.any(String),
      polling: { startedAt: null, finishedAt: null },
      fetches: { succeeded: 1, failed: 0, failingSince: null },
      subscriptions: KNOWN_SUBSCRIPTIONS.length,
      pauses: [],
      doctor: { faults: expect.arrayContaining([{ check: 'handshake', detail: expect.any(String) }]) },
      lastHour: {
        stored: { count: 1, p50S: expect.any(Number) },
        wait: { webhook: { count: 1 }, polling: { count: 0, p95S: null } },
      },
    });

    await rig.advance(60_000);
    rig.simulator.faults.add({ kind: 'status', status: 503 });
    const { id: failing } = rig.simulator.addActivity(athleteId);
    await ask(rig, 'POST', '/api/admin/activity-jobs', { activityId: failing, athleteId });
    await rig.untilJob(failing, (job) => job.attempts > 0);
    const { fetches } = await untilOverview(
      ({ fetches, lastHour }) => fetches.failed > 0 && lastHour.finished.retry > 0,
    );
    expect(fetches.failingSince).not.toBeNull();

    const history = (await ask(rig, 'GET', '/api/admin/history?hours=1')).body;
    expect(history.stepS).toBe(60);
    expect(history.points).toHaveLength(61);
    const sum = (result: string) =>
      history.points.reduce(
        (total: number, { finished }: { finished: Record<string, number> }) => total + (finished[result] ?? 0),
        0,
      );
    expect(sum('stored')).toBe(1);
    expect(sum('retry')).toBeGreaterThan(0);
    expect((await ask(rig, 'GET', '/api/admin/history?hours=24')).body.stepS).toBe(600);
    expect((await ask(rig, 'GET', '/api/admin/history?hours=200')).status).toBe(400);

    const description = await readDescription(rig);
    for (const path of ['/api/admin/overview', '/api/admin/history', '/api/admin/history?hours=x'])
      expect(description.misfits('GET', path, await ask(rig, 'GET', path))).toEqual([]);
  });
});

describe('a percentile in the history', () => {
  it('has no more digits than are significant', async () => {
    await rig.service.database.query(
      `INSERT INTO history (minute, measure, bucket, n)
       SELECT date_trunc('minute', sync_now()) - interval '10 minutes', 'wait:manual', bucket, n
       FROM (VALUES (0.1::float8, 7), (0.25, 3)) AS counted (bucket, n)`,
    );
    const points: { wait: { manual: object } }[] = (await ask(rig, 'GET', '/api/admin/history?hours=2')).body.points;
    // The fifth of the seven up to 0.1 s: 0.07142857142857142 without the rounding.
    expect(points.map(({ wait }) => wait.manual)).toContainEqual({ count: 10, p50S: 0.0714, p95S: 0.225 });
  });
});

describe('the history of a process that stops', () => {
  it('contains the runs that finished during the stop', async () => {
    const stopping = await startRig({ env: { SERVICE_ROLES: 'web,fetch' } });
    const athleteId = await stopping.connectAthlete();
    const { id } = stopping.simulator.addActivity(athleteId);
    const held = stopping.simulator.faults.add({ kind: 'hold', match: { activityId: id }, times: 1 });
    await ask(stopping, 'POST', '/api/admin/activity-jobs', { activityId: id, athleteId });
    await held.held;
    const remaining = await stopping.startReplica({ SERVICE_ROLES: 'web' });
    const stopped = stopping.service.stop();
    await until(async () => !(await isListening(stopping.service.url)), 'the end of its intake');
    held.release();
    await stopped;
    const rows = await remaining.database.query(
      `SELECT sum(n)::int AS n FROM history WHERE measure = 'finished:stored'`,
    );
    expect(rows).toEqual([{ n: 1 }]);
    await stopping.close();
  });
});

const isListening = (url: string) =>
  fetch(`${url}/healthz`).then(
    () => true,
    () => false,
  );
