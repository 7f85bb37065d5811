import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { Database } from '../../src/infra/database.ts';
import { openTestDatabase } from '../support/database.ts';
import { type Rig, startRig } from '../support/service.ts';
import { until } from '../support/until.ts';

let rig: Rig;
/** Another client of the same database. */
let other: Database;

beforeAll(async () => {
  rig = await startRig();
  rig.simulator.subscribe(`${rig.service.url}/api/provider/webhook`);
  other = openTestDatabase(rig.database.url, 2);
});
afterAll(async () => {
  await other.close();
  await rig.close();
});

/** Delivers an event of each athlete; resolves when all are being fetched, and their answers are held back. */
async function startHeldCalls(athletes: string[]): Promise<{ ids: string[]; answer: () => void }> {
  const ids: string[] = [];
  const calls: { release(): void }[] = [];
  for (const athleteId of athletes) {
    const { id } = rig.simulator.addActivity(athleteId);
    const call = rig.simulator.faults.add({ kind: 'hold', match: { activityId: id }, times: 1 });
    await rig.simulator.deliver({ object_id: id, owner_id: athleteId });
    await call.held;
    ids.push(id);
    calls.push(call);
  }
  return {
    ids,
    answer: () => {
      for (const call of calls) call.release();
    },
  };
}

const callsFor = (id: string) => rig.simulator.calls.filter((call) => call.activityId === id);
const isStored = ({ outcome }: { outcome: string | null }) => outcome === 'stored';
const untilWaits = (query: string) =>
  until(
    async () =>
      (
        await other.query(
          `SELECT FROM pg_stat_activity WHERE datname = current_database() AND query LIKE $1 AND wait_event_type = 'Lock'`,
          [`%${query}%`],
        )
      ).length > 0,
    `a wait of ${query}`,
  );

describe('a run that ends while another transaction keeps its athlete locked', () => {
  it('delays no run of others, and is stored from its one answer when the athlete is free', async () => {
    const athletes = [await rig.connectAthlete(), await rig.connectAthlete(), await rig.connectAthlete()];
    const { ids, answer } = await startHeldCalls(athletes);
    const [locked = '', ...free] = ids;
    await other.transaction(async (tx) => {
      await tx.query('SELECT FROM athlete_schedule WHERE athlete_id = $1 FOR UPDATE', [athletes[0]]);
      answer();
      for (const id of free) await rig.untilJob(id, isStored);
      const later = await rig.simulator.createActivityAndNotify(athletes[1] as string);
      await rig.untilJob(later.id, isStored);
      expect(await rig.untilJob(locked, () => true)).toMatchObject({ status: 'working', attempts: 0 });
    });
    expect(await rig.untilJob(locked, isStored)).toMatchObject({ status: 'done', attempts: 0 });
    expect(ids.map((id) => callsFor(id).length)).toEqual([1, 1, 1]);
  });

  it('is stored although every claim is blocked', async () => {
    const { ids, answer } = await startHeldCalls([await rig.connectAthlete(), await rig.connectAthlete()]);
    const third = await rig.connectAthlete();
    await other.transaction(async (tx) => {
      await tx.query('SELECT FROM rate_budget FOR UPDATE');
      ids.push((await rig.simulator.createActivityAndNotify(third)).id);
      await untilWaits('begin_run');
      answer();
      for (const id of ids.slice(0, 2)) await rig.untilJob(id, isStored);
    });
    for (const id of ids) await rig.untilJob(id, isStored);
    expect(ids.map((id) => callsFor(id).length)).toEqual([1, 1, 1]);
  });
});
