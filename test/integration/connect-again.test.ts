import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { hasEnded, type SyncRig, startSyncRig } from '../support/sync-rig.ts';
import { until } from '../support/until.ts';

let rig: SyncRig;
beforeAll(async () => {
  rig = await startSyncRig();
  rig.simulator.subscribe(`${rig.service.url}/api/provider/webhook`);
});
afterAll(() => rig.close());
afterEach(() => rig.simulator.faults.clear());

/** Connects an athlete, for the first time or again. */
async function connect(athleteId: string, scope: string): Promise<void> {
  const begun = await fetch(`${rig.service.url}/api/provider/connect`, { redirect: 'manual' });
  const consent = new URL(begun.headers.get('location') ?? '');
  consent.search += `&auto=1&athlete=${athleteId}&grant=${scope}`;
  const granted = await fetch(consent, { redirect: 'manual' });
  const back = new URL(granted.headers.get('location') ?? '');
  const connected = await fetch(`${rig.service.url}${back.pathname}${back.search}`);
  await connected.arrayBuffer();
  expect(connected.status).toBe(200);
}

/** An athlete whose access does not suffice; the provider's second refusal, after a fresh token, is held back. */
async function refuse(path: RegExp) {
  const { id: athleteId } = rig.simulator.addAthlete({ name: 'Ada Runner' });
  await connect(athleteId, 'read');
  const match = { path, athleteId };
  rig.simulator.faults.add({ kind: 'latency', match, times: 1 });
  return { athleteId, second: rig.simulator.faults.add({ kind: 'hold', match, times: 1 }) };
}

const stateOf = async (athleteId: string) =>
  (await rig.service.database.query('SELECT state FROM athlete WHERE athlete_id = $1', [athleteId]))[0]?.state;

describe('an athlete who connects again while the provider refuses the access they had', () => {
  it('is not shown as needing to connect once more, and the activity is fetched', async () => {
    const { athleteId, second } = await refuse(/activities\/\d/);
    const { id } = rig.simulator.addActivity(athleteId);
    await rig.simulator.deliver({ object_id: id, owner_id: athleteId });
    await second.held;
    await connect(athleteId, 'read,activity:read_all');
    second.release();
    await rig.untilJob(id, ({ outcome }) => outcome !== null);
    expect(await stateOf(athleteId)).toBe('healthy');
    await rig.untilJob(id, ({ outcome }) => outcome === 'stored');
  });

  it('is not shown so for the list either, which is read again', async () => {
    const { athleteId, second } = await refuse(/athlete\/activities/);
    rig.simulator.addHistory(athleteId, 2);
    await rig.service.database.query(`UPDATE athlete SET state = 'healthy' WHERE athlete_id = $1`, [athleteId]);
    const url = await rig.beginSync(`/api/admin/athletes/${athleteId}/sync`);
    await second.held;
    await connect(athleteId, 'read,activity:read_all');
    second.release();
    expect(await rig.untilSync(url, hasEnded)).toMatchObject({ state: 'finished', fetched: 2 });
    expect(await stateOf(athleteId)).toBe('healthy');
  });
});

describe('an old withdrawal of access', () => {
  it('erases nobody who connects again while it waits for what others have locked', async () => {
    const { database } = rig.service;
    const athleteId = await rig.connectAthlete();
    rig.simulator.addHistory(athleteId, 1);
    await rig.syncAthlete(athleteId);
    await database.query(`UPDATE athlete SET connected_at = now() - interval '1 hour' WHERE athlete_id = $1`, [
      athleteId,
    ]);
    const withdrawal = database.transaction(async (tx) => {
      await tx.query('SELECT FROM athlete_schedule WHERE athlete_id = $1 FOR UPDATE', [athleteId]);
      const answer = rig.post({
        object_type: 'athlete',
        object_id: athleteId,
        aspect_type: 'update',
        owner_id: athleteId,
        subscription_id: rig.simulator.subscriptions[0]?.id,
        event_time: Math.floor(Date.now() / 1000) - 300,
        updates: { authorized: 'false' },
      });
      await until(
        async () =>
          (
            await database.query(
              `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
            )
          ).length > 0,
        'the wait of the erasure',
      );
      await connect(athleteId, 'read,activity:read_all');
      return { answer };
    });
    const answer = await (await withdrawal).answer;
    expect(await answer.json()).toEqual({ status: 'stale' });
    expect(await stateOf(athleteId)).toBe('healthy');
    expect(await database.query('SELECT FROM activity WHERE athlete_id = $1', [athleteId])).toHaveLength(1);
  });
});
