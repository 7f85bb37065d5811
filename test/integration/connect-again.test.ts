import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { setAthleteState } from '../../src/store/athletes.ts';
import { cookieOf } from '../support/service.ts';
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
  const connected = await fetch(`${rig.service.url}${back.pathname}${back.search}`, {
    headers: { cookie: cookieOf(begun) },
  });
  await connected.arrayBuffer();
  expect(connected.status).toBe(200);
}

/**
 * An athlete whose access does not suffice, which only the provider knows; its second refusal, after a fresh token,
 * is held back.
 */
async function refuse(path: RegExp) {
  const { id: athleteId } = rig.simulator.addAthlete({ name: 'Ada Runner' });
  await connect(athleteId, 'read');
  await rig.service.database.query(`UPDATE athlete SET state = 'healthy' WHERE athlete_id = $1`, [athleteId]);
  const match = { path, athleteId };
  rig.simulator.faults.add({ kind: 'latency', match, times: 1 });
  return { athleteId, second: rig.simulator.faults.add({ kind: 'hold', match, times: 1 }) };
}

const stateOf = async (athleteId: string) =>
  (await rig.service.database.query('SELECT state FROM athlete WHERE athlete_id = $1', [athleteId]))[0]?.state;

describe('an athlete who reconnects while the provider refuses their former access', () => {
  it('is not shown as needing to reconnect, and the activity is fetched', async () => {
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

  it('is not shown so after a refused list either, which is re-read', async () => {
    const { athleteId, second } = await refuse(/athlete\/activities/);
    rig.simulator.addHistory(athleteId, 2);
    const url = await rig.beginSync(`/api/admin/athletes/${athleteId}/sync`);
    await second.held;
    await connect(athleteId, 'read,activity:read_all');
    second.release();
    expect(await rig.untilSync(url, hasEnded)).toMatchObject({ state: 'finished', fetched: 2 });
    expect(await stateOf(athleteId)).toBe('healthy');
  });
});

describe('an athlete with an insufficient scope', () => {
  it('causes no call and keeps the state scope, and the activity is fetched once they have reconnected', async () => {
    const { id: athleteId } = rig.simulator.addAthlete({ name: 'Bo Rider' });
    await connect(athleteId, 'read');
    const { id } = rig.simulator.addActivity(athleteId);
    await rig.simulator.deliver({ object_id: id, owner_id: athleteId });
    expect(await rig.untilJob(id, ({ outcome }) => outcome !== null)).toMatchObject({
      status: 'failed',
      outcome: 'forbidden',
      attempts: 0,
      error: `Athlete ${athleteId} granted an insufficient scope. They must reconnect and allow their activities to be read.`,
    });
    expect(rig.detailCalls(id)).toBe(0);
    expect(await stateOf(athleteId)).toBe('scope');
    await connect(athleteId, 'read,activity:read_all');
    await rig.untilJob(id, ({ outcome }) => outcome === 'stored');
  });
});

const waiters = async () =>
  (
    await rig.service.database.query(
      `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
    )
  ).length;

describe('an old withdrawal of access', () => {
  it('removes nothing from an athlete who reconnects during the erasure', async () => {
    const { database } = rig.service;
    const athleteId = await rig.connectAthlete();
    rig.simulator.addHistory(athleteId, 1);
    await rig.syncAthlete(athleteId);
    await database.query(`UPDATE athlete SET connected_at = now() - interval '1 hour' WHERE athlete_id = $1`, [
      athleteId,
    ]);
    const isConnectedAgain = async () =>
      (
        await database.query(
          `SELECT FROM athlete WHERE athlete_id = $1 AND connected_at > now() - interval '1 minute'`,
          [athleteId],
        )
      ).length === 1;
    const { withdrawn, connected } = await database.transaction(async (tx) => {
      await tx.query('SELECT FROM activity_fetch_job WHERE athlete_id = $1 FOR UPDATE', [athleteId]);
      rig.simulator.revoke(athleteId);
      const withdrawn = rig.post({
        object_type: 'athlete',
        object_id: athleteId,
        aspect_type: 'update',
        owner_id: athleteId,
        subscription_id: rig.simulator.subscriptions[0]?.id,
        event_time: Math.floor(Date.now() / 1000) - 300,
        updates: { authorized: 'false' },
      });
      await until(async () => (await waiters()) === 1, 'the wait of the erasure');
      const connected = connect(athleteId, 'read,activity:read_all');
      await until(async () => (await waiters()) === 2 || (await isConnectedAgain()), 'the connection');
      return { withdrawn, connected };
    });
    expect((await withdrawn).status).toBe(200);
    await connected;
    expect(await stateOf(athleteId)).toBe('healthy');
  });
});

describe('an athlete who reconnects while one of their runs ends refused', () => {
  it('waits for it, and neither deadlocks', async () => {
    const { database } = rig.service;
    const { athleteId, second } = await refuse(/activities\/\d/);
    second.release();
    const { id } = rig.simulator.addActivity(athleteId);
    await rig.simulator.deliver({ object_id: id, owner_id: athleteId });
    await rig.untilJob(id, ({ outcome }) => outcome === 'unauthorized');
    const deadlocks = () => database.query('SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()');
    const before = await deadlocks();
    const { connected } = await database.transaction(async (tx) => {
      // As the end of a run does.
      await tx.query('SELECT FROM athlete_schedule WHERE athlete_id = $1 FOR UPDATE', [athleteId]);
      const connected = connect(athleteId, 'read,activity:read_all');
      await until(async () => (await waiters()) === 1, 'the wait of the connection');
      await setAthleteState(tx, athleteId, 'scope', 'Refused.');
      return { connected };
    });
    await connected;
    await rig.untilJob(id, ({ outcome }) => outcome === 'stored');
    expect(await deadlocks()).toEqual(before);
  });
});
