import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { createClaimRuns } from '../../src/queue/claim.ts';
import { rescueStaleRuns } from '../../src/queue/rescue.ts';
import { type Rig, startRig } from '../support/service.ts';

let rig: Rig;
beforeAll(async () => {
  rig = await startRig({ env: { SERVICE_ROLES: 'web' } });
  rig.simulator.subscribe(`${rig.service.url}/api/provider/webhook`);
});
afterAll(() => rig.close());

describe('stale jobs, of which one is of an athlete whom somebody has locked', () => {
  it('are taken back but for that one, which follows when it is free', async () => {
    const { database, boss } = rig.service;
    const ids: string[] = [];
    for (const athleteId of [await rig.connectAthlete(), await rig.connectAthlete()])
      ids.push((await rig.simulator.createActivityAndNotify(athleteId)).id);
    const [locked, free] = ids as [string, string];
    expect((await createClaimRuns(database, boss)(2, 60_000)).runs).toHaveLength(2); // by a worker that died
    const rescue = () => rescueStaleRuns(database, boss, { staleAfterMs: 0, baseMs: 1, capMs: 1, random: () => 0 });

    await database.transaction(async (tx) => {
      await tx.query(
        `SELECT FROM athlete_schedule s JOIN activity_fetch_job j USING (athlete_id) WHERE j.activity_id = $1 FOR UPDATE OF s`,
        [locked],
      );
      expect(await rescue()).toEqual({
        taken: 1,
        problem: expect.objectContaining({ message: expect.stringContaining('lock timeout') }),
      });
      expect(await rig.untilJob(free, () => true)).toMatchObject({ status: 'pending', attempts: 1 });
      expect(await rig.untilJob(locked, () => true)).toMatchObject({ status: 'working', attempts: 0 });
    });

    expect(await rescue()).toEqual({ taken: 1, problem: undefined });
    expect(await rig.untilJob(locked, () => true)).toMatchObject({ status: 'pending', attempts: 1 });
  });
});
