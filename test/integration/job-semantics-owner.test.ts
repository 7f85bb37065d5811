import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { metric } from '../support/metric.ts';
import { problemOf } from '../support/problem.ts';
import { type JobRow, type Rig, startRig } from '../support/service.ts';
import { until } from '../support/until.ts';

const UNKNOWN = '99000001';

let rig: Rig;
let athleteId: string;

beforeAll(async () => {
  rig = await startRig({
    env: { FETCH_BACKOFF_BASE_MS: '600000', FETCH_BACKOFF_CAP_MS: '600000', SERVICE_ROLES: 'web,fetch' },
  });
  rig.simulator.subscribe(`${rig.service.url}/api/provider/webhook`);
  athleteId = await rig.connectAthlete('Owner');
});
afterAll(() => rig.close());
afterEach(() => rig.simulator.faults.clear());

const isDone = ({ status }: JobRow) => status === 'done';
const isFailed = ({ status }: JobRow) => status === 'failed';
const ownerOf = async (activityId: string) =>
  (await rig.service.database.query('SELECT athlete_id FROM activity WHERE activity_id = $1', [activityId]))[0];

/** Requests another athlete's activity manually. */
async function askWrongly(activityId: string, wrongId: string): Promise<void> {
  const body = JSON.stringify({ activityId, athleteId: wrongId });
  expect((await rig.admin('/api/admin/activity-jobs', { method: 'POST', body })).status).toBe(201);
}

/** An activity whose request named an unknown athlete, and failed. */
async function failedForUnknown(): Promise<{ id: string; job: JobRow }> {
  const { id } = rig.simulator.addActivity(athleteId);
  await askWrongly(id, UNKNOWN);
  return { id, job: await rig.untilJob(id, isFailed) };
}

describe('a job that names the wrong athlete', () => {
  it('moves to the right athlete once the provider names the owner: it is fetched, under the same id', async () => {
    const { id, job } = await failedForUnknown();
    expect(job).toMatchObject({ athleteId: UNKNOWN, outcome: 'unknownAthlete' });
    await rig.simulator.deliver({ object_id: id, owner_id: athleteId });
    const again = await rig.untilJob(id, isDone);
    expect(again).toMatchObject({ id: job.id, athleteId, reason: 'webhook', attempts: 0, outcome: 'stored' });
    expect(await ownerOf(id)).toEqual({ athlete_id: athleteId });
  });

  it('moves to the right athlete once their list has the activity', async () => {
    const { id } = await failedForUnknown();
    const begun = await rig.admin(`/api/admin/athletes/${athleteId}/sync`, { method: 'POST' });
    expect(begun.status).toBe(202);
    expect(await rig.untilJob(id, isDone)).toMatchObject({ athleteId, reason: 'manual', outcome: 'stored' });
  });

  it('no longer waits for the wrong athlete', async () => {
    const other = await rig.connectAthlete('Other');
    const { id } = rig.simulator.addActivity(athleteId);
    rig.simulator.faults.add({ kind: 'status', status: 500, match: { athleteId: other } });
    await askWrongly(id, other);
    await rig.untilJob(id, ({ attempts }) => attempts === 1);
    await rig.simulator.deliver({ object_id: id, owner_id: athleteId });
    expect(await rig.untilJob(id, isDone)).toMatchObject({ athleteId, attempts: 0, outcome: 'stored' });
  });

  it('is taken from a current run, which then ends nothing', async () => {
    const other = await rig.connectAthlete('Slow');
    const { id } = rig.simulator.addActivity(athleteId);
    const fault = rig.simulator.faults.add({ kind: 'hold', status: 404, match: { athleteId: other } });
    await askWrongly(id, other);
    await fault.held;
    await rig.simulator.deliver({ object_id: id, owner_id: athleteId });
    await rig.untilJob(id, isDone);
    fault.release();
    const superseded = 'activity_sync_jobs_finished_total{reason="manual",result="superseded"}';
    await until(async () => (await metric(rig.service.url, superseded)) === 1, 'the end of the slow run');
    expect(await rig.untilJob(id, isDone)).toMatchObject({ athleteId, outcome: 'stored' });
    expect(await ownerOf(id)).toEqual({ athlete_id: athleteId });
  });
});

describe('an activity that is stored', () => {
  it('keeps its athlete, whichever athlete an event names', async () => {
    const { id } = await rig.simulator.createActivityAndNotify(athleteId);
    await rig.untilJob(id, isDone);
    await rig.simulator.deliver({ object_id: id, owner_id: UNKNOWN, aspect_type: 'update' });
    const again = await rig.untilJob(id, ({ status, force }) => status === 'done' && force);
    expect(again).toMatchObject({ athleteId, outcome: 'stored' });
  });

  it('is neither requested nor removed for another athlete when its job has been deleted', async () => {
    const other = await rig.connectAthlete('Stranger');
    const { id } = await rig.simulator.createActivityAndNotify(athleteId, { private: true });
    await rig.untilJob(id, isDone);
    expect((await rig.admin('/api/admin/activity-jobs?status=done', { method: 'DELETE' })).status).toBe(200);
    const body = JSON.stringify({ activityId: id, athleteId: other, force: true });
    const refused = await rig.admin('/api/admin/activity-jobs', { method: 'POST', body });
    expect(await problemOf(refused, 409)).toMatchObject({
      detail: `Activity ${id} is stored as athlete ${athleteId}'s.`,
    });
    await rig.simulator.deliver({ object_id: id, owner_id: other, aspect_type: 'update' });
    expect(await rig.untilJob(id, isFailed)).toMatchObject({ athleteId: other, outcome: 'notFound' });
    expect(await ownerOf(id)).toEqual({ athlete_id: athleteId });
  });
});
