import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { ask } from '../support/admin.ts';
import { metric } from '../support/metric.ts';
import { type Rig, startRig } from '../support/service.ts';
import { until } from '../support/until.ts';

let rig: Rig;
let athleteId: string;

beforeAll(async () => {
  rig = await startRig();
  rig.simulator.subscribe(`${rig.service.url}/api/provider/webhook`);
  athleteId = await rig.connectAthlete();
});
afterAll(() => rig.close());

const why = { by: 'Ada', note: 'the provider has an incident' };
const pause = (reason: string) => ask(rig, 'POST', '/api/admin/fetching/pause', { reason, ...why });
const resume = (reason: string) => ask(rig, 'POST', '/api/admin/fetching/resume', { reason });
const request = async () => {
  const { id } = rig.simulator.addActivity(athleteId);
  await ask(rig, 'POST', '/api/admin/activity-jobs', { activityId: id, athleteId });
  return id;
};
const callsFor = (id: string) => rig.simulator.calls.filter(({ path }) => path.endsWith(`/activities/${id}`)).length;

describe('paused fetching', () => {
  it('waits for one reason while the others continue, and runs when it is resumed', async () => {
    expect((await pause('manual')).body.pauses).toEqual([
      { reason: 'manual', pausedBy: 'Ada', pausedAt: expect.any(String), note: why.note },
    ]);
    const paused = await request();
    const { id: running } = await rig.simulator.createActivityAndNotify(athleteId);
    await rig.untilJob(running, ({ outcome }) => outcome === 'stored');
    const job = await rig.untilJob(paused, ({ status }) => status === 'pending');
    expect((await ask(rig, 'GET', `/api/admin/activity-jobs/${job.id}`)).body.whyNotSooner).toEqual({
      cause: 'pause',
      until: null,
    });
    expect(callsFor(paused)).toBe(0);
    expect((await resume('manual')).body).toEqual({ pauses: [] });
    await rig.untilJob(paused, ({ outcome }) => outcome === 'stored');
  });

  it('makes no call for any reason while all of it is paused, nor for a list; a deletion continues', async () => {
    const { id } = await rig.simulator.createActivityAndNotify(athleteId);
    await rig.untilJob(id, ({ outcome }) => outcome === 'stored');
    await pause('all');
    const calls = rig.simulator.calls.length;
    const manual = await request();
    const { id: created } = await rig.simulator.createActivityAndNotify(athleteId);
    await ask(rig, 'POST', `/api/admin/athletes/${athleteId}/sync`, {});
    const untilSync = async () => (await ask(rig, 'GET', '/api/admin/syncs')).body.syncs[0];
    await until(async () => (await untilSync()).waitingUntil !== null, 'the wait of the sync');
    expect(rig.simulator.calls.length).toBe(calls);
    await resume('all');
    for (const activityId of [manual, created]) await rig.untilJob(activityId, ({ outcome }) => outcome === 'stored');
  });

  it('is refused when repeated, shown in the metrics and the processes, and recorded in the audit', async () => {
    await pause('polling');
    expect((await pause('polling')).status).toBe(409);
    await until(
      async () => (await metric(rig.service.url, 'activity_sync_fetch_paused{reason="polling"}')) === 1,
      'the metric',
    );
    const { body } = await ask(rig, 'GET', '/api/admin/processes');
    expect(body.pauses).toMatchObject([{ reason: 'polling', pausedBy: 'Ada' }]);
    expect(body.processes).toMatchObject([{ alive: true, roles: expect.arrayContaining(['fetch']), fetching: 0 }]);
    expect(body.queues).toMatchObject({ fetch: { running: 0 }, thumbnail: { waiting: expect.any(Number) } });
    await resume('polling');
    expect((await resume('polling')).status).toBe(409);
    const { entries } = (await ask(rig, 'GET', '/api/admin/audit')).body;
    expect(entries).toContainEqual(
      expect.objectContaining({
        action: 'POST /api/admin/fetching/pause',
        target: 'polling',
        detail: expect.objectContaining({ note: why.note }),
        status: 200,
      }),
    );
  });
});
