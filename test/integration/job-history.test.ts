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
