import { afterAll, describe, expect, it } from '@jest/globals';
import type { Service } from '../../src/compose.ts';
import { type ClockedRig, startClockedRig } from '../support/clocked-rig.ts';

const HOUR_MS = 3_600_000;
const HOURS = 7 * 24;
const CAPACITY = 12;
const FROM = Date.parse('2025-05-05T00:05:00Z');

describe('a week of outages, 429 storms and restarts', () => {
  let rig: ClockedRig;
  afterAll(() => rig.close());

  it('ends with every activity stored, and no call beyond a window’s budget', async () => {
    rig = await startClockedRig(
      { SERVICE_ROLES: 'web', PROVIDER_RATE_LIMIT_CAPACITY: String(CAPACITY) },
      { start: new Date(FROM) },
    );
    rig.simulator.subscribe(`${rig.service.url}/api/provider/webhook`);
    rig.simulator.settings.shortLimit = CAPACITY;
    rig.simulator.settings.accessTokenSeconds = 21_600; // refreshed all week long
    const athletes = [await rig.connectAthlete('a'), await rig.connectAthlete('b'), await rig.connectAthlete('c')];
    const startWorker = () =>
      rig.startReplica({ SERVICE_ROLES: 'fetch', PROVIDER_RATE_LIMIT_CAPACITY: String(CAPACITY) });
    let worker: Service = await startWorker();
    const created: string[] = [];

    for (let hour = 0; hour < HOURS; hour += 1) {
      // Day 2: the provider is down for six hours. Day 4: it throttles, with and without Retry-After.
      if (hour === 30) rig.simulator.faults.add({ match: { path: /activities/ }, kind: 'status', status: 503 });
      if (hour === 36) {
        rig.simulator.faults.clear();
        // Retries the jobs that have used up their attempts, as the operator on call does.
        const retried = await rig.admin('/api/admin/activity-jobs/retry?status=failed', { method: 'POST' });
        expect(retried.status).toBe(200);
        await retried.arrayBuffer();
      }
      if (hour === 80) rig.simulator.faults.add({ match: { path: /activities/ }, kind: 'retryAfter429', times: 5 });
      if (hour === 84) rig.simulator.faults.add({ match: { path: /activities/ }, kind: 'stringErrors429', times: 5 });
      // Every eight hours a burst that no single window holds; otherwise one activity now and then.
      const arriving = hour % 8 === 0 ? 2 * CAPACITY : 1;
      for (let n = 0; n < arriving; n += 1) {
        const athleteId = athletes[n % athletes.length] ?? '';
        const { id, status } = await rig.simulator.createActivityAndNotify(athleteId);
        expect(status).toBe(200);
        created.push(id);
      }
      // Day 5 and 6: restarts.
      if (hour === 110 || hour === 130) {
        await worker.stop(0);
        worker = await startWorker();
      }
      await settle(rig);
      await rig.advance(HOUR_MS);
    }
    for (let quarter = 0; quarter < 48 && (await open(rig)) > 0; quarter += 1) {
      await rig.advance(HOUR_MS / 4);
      await settle(rig);
    }

    const stored = await rig.service.database.query<{ activity_id: string }>(
      'SELECT activity_id FROM activity ORDER BY activity_id',
    );
    expect(stored.map((row) => row.activity_id)).toEqual(created.toSorted((a, b) => Number(BigInt(a) - BigInt(b))));
    const answers = rig.simulator.calls.filter((call) => call.counted);
    const perWindow = Map.groupBy(answers, (call) => call.window);
    expect(Math.max(...[...perWindow.values()].map((calls) => calls.length))).toBeLessThanOrEqual(CAPACITY);
    // The only 429s are the ten that the storms made.
    expect(answers.filter((call) => call.status === 429).length).toBeLessThanOrEqual(10);
  }, 240_000);
});

/** Jobs that could run now, or do. */
async function countRunnable(rig: ClockedRig): Promise<number> {
  const [row] = await rig.service.database.query<{ n: number }>(
    `SELECT count(*)::int AS n FROM "ActivityFetchJob"
     WHERE status = 'working' OR status = 'pending' AND "nextRunAt" <= sync_now()`,
  );
  return row?.n ?? 0;
}

/** Resolves when nothing is left that this moment allows. */
async function settle(rig: ClockedRig): Promise<void> {
  while ((await countRunnable(rig)) > 0) await new Promise((resolve) => setTimeout(resolve, 5));
}

async function open(rig: ClockedRig): Promise<number> {
  const [row] = await rig.service.database.query<{ n: number }>(
    'SELECT count(*)::int AS n FROM activity_fetch_job WHERE outcome IS NULL',
  );
  return row?.n ?? 0;
}
