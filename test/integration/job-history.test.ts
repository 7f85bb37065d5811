import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { ask } from '../support/admin.ts';
import { type Rig, startRig } from '../support/service.ts';
import { until } from '../support/until.ts';

const JOBS = '/api/admin/activity-jobs';
let rig: Rig;

beforeAll(async () => {
  rig = await startRig();
  rig.simulator.subscribe(`${rig.service.url}/api/provider/webhook`);
});
afterAll(() => rig.close());

const historyOf = async (jobId: string) => (await ask(rig, 'GET', `${JOBS}/${jobId}`)).body;
const kindsOf = (requests: { kind: string }[]) => requests.map(({ kind }) => kind);

describe('the history of a job', () => {
  it('has every run with start, end, result and cause, also those before it was re-opened', async () => {
    const athleteId = await rig.connectAthlete();
    const id = '4711';
    const { body: job } = await ask(rig, 'POST', JOBS, { activityId: id, athleteId });
    await rig.untilJob(id, ({ status }) => status === 'failed');
    rig.simulator.addActivity(athleteId, { id });
    await ask(rig, 'POST', `${JOBS}/${job.id}/retry`);
    await rig.untilJob(id, ({ outcome }) => outcome === 'stored');
    const { attempts } = await historyOf(job.id);
    const times = { startedAt: expect.any(String), endedAt: expect.any(String) };
    expect(attempts).toEqual([
      { ...times, result: 'failed', outcome: 'notFound', error: expect.stringContaining('HTTP 404') },
      { ...times, result: 'done', outcome: 'stored', error: null },
    ]);
    for (const { startedAt, endedAt } of attempts)
      expect(Date.parse(endedAt)).toBeGreaterThanOrEqual(Date.parse(startedAt));
  });

  it('has every request with what asked and who: a client, a retry of one or of many, a replay, a sync', async () => {
    const athleteId = await rig.connectAthlete();
    const { id } = await rig.simulator.createActivityAndNotify(athleteId);
    const { id: jobId } = await rig.untilJob(id, ({ outcome }) => outcome === 'stored');
    const first = await historyOf(jobId);
    expect(first.deliveries).toHaveLength(1);
    expect(first.requests).toEqual([]);
    const again = async (path: string, body?: object) => {
      expect((await ask(rig, 'POST', path, body)).status).toBeLessThan(300);
      await rig.untilJob(id, ({ status }) => status === 'done');
    };
    await again(JOBS, { activityId: id, athleteId, force: true });
    await again(`${JOBS}/${jobId}/retry`);
    await again(`${JOBS}/retry?status=done&athleteId=${athleteId}`);
    await again(`${JOBS}/force?status=done&athleteId=${athleteId}`);
    const eventId = first.deliveries[0].id;
    await again(`/api/admin/webhook-events/${eventId}/replay`);
    const { body: sync } = await ask(rig, 'POST', `/api/admin/athletes/${athleteId}/sync`, { force: true });
    const isSynced = async () => kindsOf((await historyOf(jobId)).requests).includes('sync');
    await until(isSynced, 'the sync’s request');
    const { requests } = await historyOf(jobId);
    const at = expect.any(String);
    expect(requests).toEqual([
      { at, kind: 'request', by: 'admin', source: null },
      { at, kind: 'retry', by: 'admin', source: null },
      { at, kind: 'retry', by: 'admin', source: null },
      { at, kind: 'request', by: 'admin', source: null },
      { at, kind: 'replay', by: 'admin', source: eventId },
      { at, kind: 'sync', by: null, source: sync.id },
    ]);
  });

  it('says that a job was re-opened because its athlete connected', async () => {
    const athleteId = '7654321';
    const { body: job } = await ask(rig, 'POST', JOBS, { activityId: '4712', athleteId });
    await rig.untilJob('4712', ({ outcome }) => outcome === 'unknownAthlete');
    await rig.connectAthlete(undefined, athleteId);
    const { requests } = await historyOf(job.id);
    expect(kindsOf(requests)).toEqual(['request', 'connect']);
  });
});

describe('POST /api/admin/webhook-events/replay', () => {
  it('replays of each activity the newest delivery that matches, in the background', async () => {
    const athleteId = await rig.connectAthlete();
    const ids: string[] = [];
    for (let n = 0; n < 3; n += 1) ids.push((await rig.simulator.createActivityAndNotify(athleteId)).id);
    for (const id of ids) await rig.untilJob(id, ({ outcome }) => outcome === 'stored');
    const [changed = '', deleted = ''] = ids;
    const now = Math.floor(Date.now() / 1000);
    const event = { owner_id: athleteId, event_time: now + 10 };
    await rig.simulator.deliver({ ...event, object_id: changed, aspect_type: 'update' });
    rig.simulator.deleteActivity(deleted);
    await rig.simulator.deliver({ ...event, object_id: deleted, aspect_type: 'delete' });
    await rig.untilJob(deleted, ({ outcome }) => outcome === 'deleted');
    await rig.untilJob(changed, ({ status }) => status === 'done');
    const EVENTS = '/api/admin/webhook-events';
    expect((await ask(rig, 'GET', `${EVENTS}/count?athleteId=${athleteId}`)).body).toEqual({ activities: 3 });
    const { status, body } = await ask(rig, 'POST', `${EVENTS}/replay`, { athleteId });
    expect({ status, body }).toEqual({ status: 202, body: { id: expect.any(String), total: 3 } });
    const changeOf = async () =>
      (await ask(rig, 'GET', '/api/admin/job-changes')).body.changes.find(({ id }: { id: string }) => id === body.id);
    await until(async () => (await changeOf())?.state === 'finished', 'the replay');
    expect(await changeOf()).toMatchObject({ action: 'replay', changed: 3, total: 3 });
    // The newest delivery decides: the deleted activity stays deleted, though it was once created.
    expect(await rig.untilJob(deleted, ({ status }) => status === 'done')).toMatchObject({ outcome: 'deleted' });
    for (const id of ids.filter((one) => one !== deleted))
      await rig.untilJob(id, ({ outcome }) => outcome === 'stored');
    const { id: jobId } = await rig.untilJob(changed, () => true);
    expect(kindsOf((await historyOf(jobId)).requests)).toEqual(['replay']);
  });

  it('needs a filter', async () => {
    expect((await ask(rig, 'POST', '/api/admin/webhook-events/replay', {})).status).toBe(400);
  });
});
