import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { Activity } from '../../src/domain/activity.ts';
import type { Run } from '../../src/queue/claim.ts';
import type { Settlement } from '../../src/queue/settlement.ts';
import { type Rig, startRig } from '../support/service.ts';
import { playWorker } from '../support/settling.ts';

let rig: Rig;
let worker: ReturnType<typeof playWorker>;
beforeAll(async () => {
  rig = await startRig({ env: { SERVICE_ROLES: 'web' } });
  rig.simulator.subscribe(`${rig.service.url}/api/provider/webhook`);
  worker = playWorker(rig.service);
});
afterAll(() => rig.close());

/** Claims a new activity's job for each athlete. */
async function claimRuns(many: number): Promise<Run[]> {
  const runs: Run[] = [];
  for (let n = 0; n < many; n += 1) {
    await rig.simulator.createActivityAndNotify(await rig.connectAthlete());
    runs.push(await worker.claim());
  }
  return runs;
}

function storedOf({ activityId, athleteId }: Run, changes: Partial<Activity> = {}): Settlement {
  const activity: Activity = {
    activityId,
    athleteId,
    name: 'Run',
    sportType: 'Run',
    startDate: '2025-09-21T06:00:00Z',
    timezone: undefined,
    distanceM: 1,
    movingTimeS: 1,
    elapsedTimeS: 1,
    elevationGainM: 1,
    private: false,
    ...changes,
  };
  return { kind: 'stored', outcome: 'stored', activity, detail: '{}', lastCall: 'none' };
}

const settle = (run: Run, settlement: Settlement) =>
  worker.completer.settle(run, settlement, { until: performance.now() });
const transactionsOf = (runs: Run[]) =>
  rig.service.database.query('SELECT DISTINCT xmin::text AS id FROM activity WHERE activity_id = ANY ($1)', [
    runs.map(({ activityId }) => activityId),
  ]);

describe('runs that end together', () => {
  it('are settled in one transaction', async () => {
    const runs = await claimRuns(3);
    expect(await Promise.all(runs.map((run) => settle(run, storedOf(run))))).toEqual(['stored', 'stored', 'stored']);
    expect(await transactionsOf(runs)).toHaveLength(1);
  });

  it('are stored except for one whose answer PostgreSQL cannot store: that one ends as unusable', async () => {
    const runs = await claimRuns(3);
    const results = await Promise.all(
      runs.map((run, n) => settle(run, storedOf(run, n === 1 ? { movingTimeS: 3_000_000_000 } : {}))),
    );
    expect(results).toEqual(['stored', 'unusable', 'stored']);
    const unusable = await rig.untilJob(runs[1]?.activityId ?? '', () => true);
    expect(unusable).toMatchObject({
      status: 'failed',
      outcome: 'unusable',
      attempts: 0,
      error: expect.stringContaining('cannot be stored'),
    });
    expect(await transactionsOf(runs)).toHaveLength(2);
  });

  it('are stored except for one that has lost its claim', async () => {
    const runs = await claimRuns(2);
    const [lost] = runs as [Run, Run];
    await settle(lost, { kind: 'retry', error: 'reclaimed' });
    const [first, second] = await Promise.allSettled(runs.map((run) => settle(run, storedOf(run))));
    expect(first).toMatchObject({ status: 'rejected', reason: { code: 'CLAIM_LOST' } });
    expect(second).toEqual({ status: 'fulfilled', value: 'stored' });
    expect(await rig.untilJob(lost.activityId, () => true)).toMatchObject({ status: 'pending', attempts: 1 });
  });
});
