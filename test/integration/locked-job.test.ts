import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { type Rig, startRig } from '../support/service.ts';

let rig: Rig;
beforeAll(async () => {
  rig = await startRig({ env: { SERVICE_ROLES: 'web' } });
  rig.simulator.subscribe(`${rig.service.url}/api/provider/webhook`);
});
afterAll(() => rig.close());

describe('a job that is due and that another transaction has locked', () => {
  it('delays no other athlete, and runs when it is free', async () => {
    const ids: string[] = [];
    for (const athleteId of [await rig.connectAthlete(), await rig.connectAthlete()]) {
      const { id } = rig.simulator.addActivity(athleteId);
      await rig.simulator.deliver({ object_id: id, owner_id: athleteId });
      ids.push(id);
    }
    const [first, second] = ids as [string, string];
    await rig.service.database.transaction(async (tx) => {
      await tx.query(`SELECT FROM pgboss.job WHERE name = 'activity-fetch' AND singleton_key = $1 FOR UPDATE`, [first]);
      await rig.startReplica({ SERVICE_ROLES: 'fetch' });
      await rig.untilJob(second, ({ outcome }) => outcome === 'stored');
      expect(await rig.untilJob(first, () => true)).toMatchObject({ status: 'pending' });
    });
    await rig.untilJob(first, ({ outcome }) => outcome === 'stored');
  });
});
