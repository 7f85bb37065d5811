import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { ask } from '../support/admin.ts';
import { type Rig, startRig } from '../support/service.ts';

let rig: Rig;
let athleteId: string;
const JOBS = '/api/admin/activity-jobs';

beforeAll(async () => {
  rig = await startRig({ env: { FETCH_TIMEOUT_MS: '20000' } });
  athleteId = await rig.connectAthlete();
});
afterAll(() => rig.close());
beforeEach(() => rig.simulator.faults.clear());

const create = async (activityId: string) => (await ask(rig, 'POST', JOBS, { activityId, athleteId })).body;

describe('a job in backoff', () => {
  it('shows its attempts and until when it waits, and a retry ends the wait', async () => {
    const { id: activityId } = rig.simulator.addActivity(athleteId);
    rig.simulator.faults.add({ kind: 'status', status: 500, match: { activityId }, times: 1 });
    const { id } = await create(activityId);
    const waiting = await rig.untilJob(activityId, (job) => job.status === 'pending' && job.attempts === 1);
    const { body } = await ask(rig, 'GET', `${JOBS}/${id}`);
    expect(body.attempts).toEqual([
      {
        startedAt: expect.any(String),
        endedAt: expect.any(String),
        result: 'retry',
        outcome: null,
        error: expect.stringContaining('500'),
      },
    ]);
    expect(body.whyNotSooner).toEqual({ cause: 'backoff', until: waiting.nextRunAt.toISOString() });
    expect(waiting.nextRunAt.getTime()).toBeGreaterThan(Date.now() + 20_000);
    // An expensive count runs at most a twentieth of the time.
    let waits: { backoff: number };
    do waits = (await ask(rig, 'GET', '/api/admin/budget')).body.waiting;
    while (waits.backoff !== 1);
    expect(waits).toEqual({ turn: 0, cooldown: 0, budget: 0, backoff: 1 });

    const retried = await ask(rig, 'POST', `${JOBS}/${id}/retry`);
    expect(retried).toMatchObject({ status: 200, body: { id, attempts: 1, error: expect.stringContaining('500') } });
    await rig.untilJob(activityId, (job) => job.outcome === 'stored');
  });
});

describe('a working job', () => {
  it('is shown as working, is not retried, and its result is not saved once it is deleted', async () => {
    const { id: activityId } = rig.simulator.addActivity(athleteId);
    const fault = rig.simulator.faults.add({ kind: 'hold', match: { activityId } });
    const { id } = await create(activityId);
    await fault.held;
    await rig.untilJob(activityId, (job) => job.status === 'working');
    expect((await ask(rig, 'GET', `${JOBS}?status=working`)).body).toMatchObject({
      stats: { working: 1 },
      jobs: [{ id, status: 'working' }],
    });
    expect((await ask(rig, 'GET', `${JOBS}/${id}`)).body.whyNotSooner).toBeNull();
    expect((await ask(rig, 'POST', `${JOBS}/${id}/retry`)).status).toBe(409);
    expect((await ask(rig, 'POST', JOBS, { activityId, athleteId })).status).toBe(200);
    expect((await ask(rig, 'DELETE', `${JOBS}?status=working`)).body).toEqual({ deleted: 1 });
    fault.release();
    await rig.simulator.waitForCall((call) => call.activityId === activityId);
    await rig.service.stop(5000);
    const replica = await rig.startReplica({ SERVICE_ROLES: 'web' });
    expect(await replica.database.query('SELECT FROM activity WHERE activity_id = $1', [activityId])).toEqual([]);
    expect(await replica.database.query('SELECT FROM activity_fetch_job WHERE activity_id = $1', [activityId])).toEqual(
      [],
    );
  });
});
