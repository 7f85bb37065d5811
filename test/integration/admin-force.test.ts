import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { ask } from '../support/admin.ts';
import { type Rig, startRig } from '../support/service.ts';

let rig: Rig;
let athleteId: string;

beforeAll(async () => {
  rig = await startRig();
  rig.simulator.subscribe(`${rig.service.url}/api/provider/webhook`);
  athleteId = await rig.connectAthlete();
});
afterAll(() => rig.close());

const FORCE = '/api/admin/activity-jobs/force';
const callsFor = (id: string) => rig.simulator.calls.filter(({ path }) => path.endsWith(`/activities/${id}`)).length;

describe('POST /api/admin/activity-jobs/force', () => {
  it('re-fetches stored activities, leaves deletions alone, and says how many', async () => {
    const { id: stored } = await rig.simulator.createActivityAndNotify(athleteId);
    const { id: deleted } = await rig.simulator.createActivityAndNotify(athleteId);
    for (const id of [stored, deleted]) await rig.untilJob(id, ({ outcome }) => outcome === 'stored');
    await rig.simulator.deleteActivityAndNotify(deleted);
    await rig.untilJob(deleted, ({ outcome }) => outcome === 'deleted');
    const before = callsFor(stored);

    const { status, body } = await ask(rig, 'POST', `${FORCE}?status=done&athleteId=${athleteId}`);
    expect([status, body]).toEqual([200, { forced: 1 }]);
    await rig.simulator.waitForCall(() => callsFor(stored) === before + 1);
    expect(await rig.untilJob(stored, ({ outcome }) => outcome === 'stored')).toMatchObject({
      reason: 'manual',
      force: true,
    });
    const { entries } = (await ask(rig, 'GET', '/api/admin/audit?limit=1')).body;
    expect(entries[0]).toMatchObject({ action: `POST ${FORCE}`, status: 200, detail: { forced: 1, status: 'done' } });
  });

  it('requires a status, so that a mistake does not spend the budget: 400', async () => {
    const { status, body } = await ask(rig, 'POST', FORCE);
    expect(status).toBe(400);
    expect(body.errors[0].field).toBe('query.status');
  });
});
