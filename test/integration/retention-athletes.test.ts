import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { ask } from '../support/admin.ts';
import { type ClockedRig, startClockedRig } from '../support/clocked-rig.ts';
import { until } from '../support/until.ts';

const DAY_MS = 86_400_000;
const UNKNOWN = '777000111444';
let rig: ClockedRig;
beforeAll(async () => {
  rig = await startClockedRig({ JOB_RETENTION_DAYS: '3' });
});
afterAll(() => rig.close());

const scheduled = async () =>
  (await rig.service.database.query('SELECT athlete_id FROM athlete_schedule WHERE athlete_id > 0')).map(
    (row) => row.athlete_id,
  );

/** Lets the retention pass, and waits for the end of the purge, which removes history last. */
async function purge(): Promise<void> {
  const { database } = rig.service;
  await database.query(`INSERT INTO history (minute, measure, bucket, n) VALUES (sync_now(), 'last', 0, 1)`);
  await rig.advance(4 * DAY_MS);
  await until(
    async () => (await database.query(`SELECT FROM history WHERE measure = 'last'`)).length === 0,
    'the end of the purge',
  );
}

describe('the retention', () => {
  it('leaves nothing of an event for an athlete who is not connected', async () => {
    const athleteId = await rig.connectAthlete();
    const { id } = rig.simulator.addActivity(athleteId);
    for (const [object_id, owner_id] of [
      [id, athleteId],
      ['999', UNKNOWN],
    ])
      await rig.post({
        object_type: 'activity',
        object_id,
        aspect_type: 'create',
        owner_id,
        subscription_id: 1,
        event_time: Math.floor(rig.clock.now() / 1000),
      });
    await rig.untilJob(id, ({ outcome }) => outcome === 'stored');
    await rig.untilJob('999', ({ outcome }) => outcome === 'unknownAthlete');
    expect(await scheduled()).toEqual(expect.arrayContaining([athleteId, UNKNOWN]));
    await purge();
    expect(await scheduled()).toEqual([athleteId]);
  });

  it('deletes a bulk sync that has ended, even if no other one is started', async () => {
    const athleteId = await rig.connectAthlete();
    const { id } = (await ask(rig, 'POST', `/api/admin/athletes/${athleteId}/sync`, {})).body;
    const { database } = rig.service;
    await until(
      async () =>
        (await database.query('SELECT FROM list_walk WHERE id = $1 AND check_due_at IS NULL', [id])).length === 1,
      'the end of the sync',
    );
    await purge();
    expect(await database.query('SELECT FROM list_walk WHERE id = $1', [id])).toEqual([]);
  });
});
