import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { eraseAthleteRows, lockForErasure } from '../../src/store/erasure.ts';
import { startClockedRig } from '../support/clocked-rig.ts';
import type { Rig } from '../support/service.ts';
import { until } from '../support/until.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
let rig: Rig;
let advance: (ms: number) => Promise<void>;
let now: () => number;

beforeEach(async () => {
  const clocked = await startClockedRig();
  rig = clocked;
  advance = clocked.advance;
  now = () => clocked.clock.now();
  rig.simulator.subscribe(`${rig.service.url}/api/provider/webhook`);
});
afterEach(() => rig.close());

/** Connects an athlete and stores an activity of theirs. */
async function connect(): Promise<{ athleteId: string; activityId: string }> {
  const athleteId = await rig.connectAthlete();
  const { id } = await rig.simulator.createActivityAndNotify(athleteId);
  await rig.untilJob(id, ({ outcome }) => outcome === 'stored');
  return { athleteId, activityId: id };
}

/** Posts the event that an athlete has withdrawn access, as anybody could. */
async function withdraw(athleteId: string, aheadMs = 0): Promise<string> {
  const answer = await rig.post({
    object_type: 'athlete',
    object_id: Number(athleteId),
    owner_id: Number(athleteId),
    aspect_type: 'update',
    subscription_id: 1,
    event_time: Math.floor((now() + aheadMs) / 1000),
    updates: { authorized: 'false' },
  });
  expect(answer.status).toBe(200);
  return ((await answer.json()) as { status: string }).status;
}

const results = async (athleteId: string) =>
  (
    await rig.service.database.query<{ result: string }>(
      `SELECT result FROM webhook_event WHERE object_type = 'athlete' AND owner_id = $1 ORDER BY id`,
      [athleteId],
    )
  ).map(({ result }) => result);
const isKept = async (athleteId: string) =>
  (await rig.service.database.query('SELECT FROM activity WHERE athlete_id = $1', [athleteId])).length > 0;
const isShown = async (activityId: string) => (await rig.admin(`/api/admin/activities/${activityId}`)).status === 200;
const untilErased = (athleteId: string) => until(async () => !(await isKept(athleteId)), 'the erasure');
const untilRefuted = (athleteId: string) =>
  until(async () => (await results(athleteId)).at(-1) === 'refuted', 'the refutation');
const untilWaits = () =>
  until(
    async () => (await rig.service.boss.findJobs('deauthorization')).some(({ state }) => state === 'retry'),
    'a withdrawal that is tried again',
  );

const untilWaitsForLock = () =>
  until(
    async () =>
      (
        await rig.service.database.query(
          `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
        )
      ).length > 0,
    'a statement that waits for a lock',
  );

describe('a withdrawal of access that was not signed', () => {
  it('is refuted where the provider accepts the athlete’s token: nothing is erased', async () => {
    const { athleteId, activityId } = await connect();
    expect(await withdraw(athleteId)).toBe('accepted');
    await untilRefuted(athleteId);
    expect(await isShown(activityId)).toBe(true);
  });

  it('erases the athlete where the provider refuses the token and its refresh', async () => {
    const { athleteId } = await connect();
    rig.simulator.revoke(athleteId);
    expect(await withdraw(athleteId)).toBe('accepted');
    await untilErased(athleteId);
    expect(await results(athleteId)).toEqual([]);
  });

  it('is retried in an hour when the provider is unavailable, and neither erases nor refutes until then', async () => {
    const { athleteId } = await connect();
    rig.simulator.revoke(athleteId);
    const outage = rig.simulator.faults.add({ kind: 'status', status: 503, match: { path: /athlete$/ } });
    await withdraw(athleteId);
    await untilWaits();
    expect(await isKept(athleteId)).toBe(true);
    expect(await results(athleteId)).toEqual(['accepted']);
    outage.remove();
    await advance(HOUR_MS + 60_000);
    await untilErased(athleteId);
  });

  it('is not confirmed by a provider that refuses the service’s own credentials', async () => {
    const { athleteId } = await connect();
    rig.simulator.revoke(athleteId);
    rig.simulator.settings.clientSecret = 'another';
    await withdraw(athleteId);
    await untilWaits();
    expect(await isKept(athleteId)).toBe(true);
    rig.simulator.settings.clientSecret = 'simulator-secret';
  });

  it('dated more than an hour in the future is refuted at once', async () => {
    const { athleteId } = await connect();
    rig.simulator.revoke(athleteId);
    expect(await withdraw(athleteId, 2 * HOUR_MS)).toBe('refuted');
    expect(await results(athleteId)).toEqual(['refuted']);
    expect(await isKept(athleteId)).toBe(true);
  });

  it('is confirmed within two minutes by another process, when the one that asked the provider died', async () => {
    const { athleteId } = await connect();
    rig.simulator.revoke(athleteId);
    const held = rig.simulator.faults.add({ kind: 'hold', match: { path: /athlete$/ }, times: 1 });
    await withdraw(athleteId);
    await held.held; // a process that died would never hear the answer
    await rig.startReplica({ SERVICE_ROLES: 'fetch' });
    await advance(2 * MINUTE_MS);
    await rig.service.boss.supervise('deauthorization');
    await advance(2000);
    await untilErased(athleteId);
    held.release();
  });

  it('for an unknown athlete leaves nothing in the ledger either', async () => {
    const { athleteId } = await connect();
    rig.simulator.revoke(athleteId);
    await withdraw(athleteId);
    await untilErased(athleteId);
    expect(await withdraw(athleteId)).toBe('accepted');
    expect(await withdraw(athleteId, 2 * HOUR_MS)).toBe('refuted');
    expect(await results(athleteId)).toEqual([]);
  });

  it('that comes while its athlete is being erased leaves nothing in the ledger either', async () => {
    const { athleteId } = await connect();
    const { database } = rig.service;
    const coming = await database.transaction(async (tx) => {
      await lockForErasure(tx, athleteId);
      await eraseAthleteRows(tx, athleteId);
      const answered = withdraw(athleteId);
      await untilWaitsForLock();
      return { answered };
    });
    expect(await coming.answered).toBe('accepted');
    expect(await results(athleteId)).toEqual([]);
  });

  it('counts once however often it is delivered', async () => {
    const { athleteId } = await connect();
    await withdraw(athleteId);
    expect(await withdraw(athleteId)).toBe('duplicate');
  });
});

describe('a withdrawal of access for an athlete whose token was already invalid', () => {
  const loseToken = async (athleteId: string) => {
    rig.simulator.revoke(athleteId);
    const { id } = await rig.simulator.createActivityAndNotify(athleteId);
    await rig.untilJob(id, ({ outcome }) => outcome === 'unauthorized');
  };

  it('hides the data at once, and erases it after 48 hours', async () => {
    const { athleteId, activityId } = await connect();
    await loseToken(athleteId);
    await withdraw(athleteId);
    expect(await isShown(activityId)).toBe(false);
    await advance(47 * HOUR_MS);
    expect(await isKept(athleteId)).toBe(true);
    await advance(HOUR_MS + 60_000);
    await untilErased(athleteId);
  });

  it('has no effect when the athlete reconnects: the data is shown again', async () => {
    const { athleteId, activityId } = await connect();
    await loseToken(athleteId);
    await withdraw(athleteId);
    await advance(2 * HOUR_MS);
    await rig.connectAthlete(undefined, athleteId);
    expect(await isShown(activityId)).toBe(true);
    await advance(48 * HOUR_MS);
    await untilRefuted(athleteId);
    expect(await isShown(activityId)).toBe(true);
  });
});
