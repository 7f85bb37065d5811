import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { createClaimRuns } from '../../src/queue/claim.ts';
import { acceptActivityEvents } from '../../src/queue/requests.ts';
import { rescueStaleRuns, wakeForgottenLanes } from '../../src/queue/rescue.ts';
import { type Rig, startRig } from '../support/service.ts';
import { until } from '../support/until.ts';

let rig: Rig;
beforeAll(async () => {
  rig = await startRig({ env: { SERVICE_ROLES: 'web' } });
  rig.simulator.subscribe(`${rig.service.url}/api/provider/webhook`);
});
afterAll(() => rig.close());

const rescue = () =>
  rescueStaleRuns(rig.service.database, rig.service.boss, { staleAfterMs: 0, baseMs: 1, capMs: 1, random: () => 0 });

describe('stale jobs, of which one is of an athlete whom somebody has locked', () => {
  it('are taken back but for that one, which follows when it is free', async () => {
    const { database, boss } = rig.service;
    const ids: string[] = [];
    for (const athleteId of [await rig.connectAthlete(), await rig.connectAthlete()])
      ids.push((await rig.simulator.createActivityAndNotify(athleteId)).id);
    const [locked, free] = ids as [string, string];
    expect((await createClaimRuns(database, boss)(2, 60_000)).runs).toHaveLength(2); // by a worker that died
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

describe('a last attempt that is stale', () => {
  const waitsFor = (query: string) =>
    until(
      async () =>
        (
          await rig.service.database.query(
            `SELECT FROM pg_stat_activity WHERE datname = current_database() AND query LIKE $1 AND wait_event_type = 'Lock'`,
            [`%${query}%`],
          )
        ).length > 0,
      `a wait of ${query}`,
    );
  const eventOf = (ownerId: string, objectId: string) => ({
    objectId,
    ownerId,
    aspect: 'update' as const,
    eventTime: '2100-01-01T00:00:00Z',
    subscriptionId: '1',
    updates: {},
  });
  /** An activity whose job has one attempt left, and waits. */
  const onLastAttempt = async (athleteId: string): Promise<string> => {
    const { id } = await rig.simulator.createActivityAndNotify(athleteId);
    await rig.service.database.query(
      'UPDATE pgboss.job SET retry_count = 5, retry_limit = 5 WHERE singleton_key = $1',
      [id],
    );
    return id;
  };

  it('is followed by a run for an event that came during it, though its delivery had begun before and waited', async () => {
    const { database, boss } = rig.service;
    const [other, athleteId] = [await rig.connectAthlete(), await rig.connectAthlete()];
    const id = await onLastAttempt(athleteId);
    const events = [eventOf(other, rig.simulator.addActivity(other).id), eventOf(athleteId, id)];
    await database.query('INSERT INTO athlete_schedule (athlete_id) VALUES ($1)', [other]);
    const { delivery } = await database.transaction(async (tx) => {
      await tx.query('SELECT FROM athlete_schedule WHERE athlete_id = $1 FOR UPDATE', [other]);
      const delivery = acceptActivityEvents(database, events);
      await waitsFor('accept_events');
      expect((await createClaimRuns(database, boss)(1, 60_000)).runs).toMatchObject([{ activityId: id, attempts: 5 }]);
      return { delivery };
    });
    expect(await delivery).toMatchObject([{ result: 'accepted' }, { result: 'accepted' }]);

    expect(await rescue()).toEqual({ taken: 1, problem: undefined });
    expect(await rig.untilJob(id, () => true)).toMatchObject({ status: 'pending', attempts: 0 });
  });

  it('is followed by none for an event that came before it, though its claim had begun before that and waited', async () => {
    const { database, boss } = rig.service;
    await database.query("UPDATE athlete_schedule SET webhook_due_at = 'infinity'"); // the jobs before stay where they are
    const athleteId = await rig.connectAthlete();
    const id = await onLastAttempt(athleteId);
    const { claim } = await database.transaction(async (tx) => {
      await tx.query('SELECT lock_budget()');
      const claim = createClaimRuns(database, boss)(1, 60_000);
      await waitsFor('claim_runs');
      await acceptActivityEvents(database, [eventOf(athleteId, id)]);
      return { claim };
    });
    expect((await claim).runs).toMatchObject([{ activityId: id, attempts: 5, version: 2 }]);

    expect(await rescue()).toEqual({ taken: 1, problem: undefined });
    expect(await rig.untilJob(id, () => true)).toMatchObject({ status: 'failed', outcome: 'exhausted' });
  });
});

describe('athletes whose due times were lost, of whom somebody has locked one', () => {
  it('are woken but for that one, who follows when they are free', async () => {
    const { database } = rig.service;
    const athletes = [await rig.connectAthlete(), await rig.connectAthlete(), await rig.connectAthlete()];
    for (const athleteId of athletes) await rig.simulator.createActivityAndNotify(athleteId);
    await database.query('UPDATE athlete_schedule SET webhook_due_at = NULL WHERE athlete_id = ANY ($1)', [athletes]);
    const impatient = database.openPipeline({ lockTimeoutMs: 2000 });
    await database.transaction(async (tx) => {
      await tx.query('SELECT FROM athlete_schedule WHERE athlete_id = $1 FOR UPDATE', [athletes[1]]);
      expect(await wakeForgottenLanes(impatient, 60_000)).toBe(2);
    });
    expect(await wakeForgottenLanes(impatient, 60_000)).toBe(1);
  });
});

describe('athletes whose cooldown a clock has set that was a year ahead for a while', () => {
  it('are kept from a fetch no longer; one whose cooldown may be right is', async () => {
    const { database } = rig.service;
    const [ahead, right] = [await rig.connectAthlete(), await rig.connectAthlete()];
    for (const athleteId of [ahead, right]) await rig.simulator.createActivityAndNotify(athleteId);
    const keep = (athleteId: string, until: string) =>
      database.query(
        `UPDATE athlete_schedule SET cooldown_until = now() + $2::interval, webhook_due_at = now() + $2::interval WHERE athlete_id = $1`,
        [athleteId, until],
      );
    await keep(ahead, '1 year');
    await keep(right, '1 minute');
    expect(await wakeForgottenLanes(database, 60_000)).toBe(1);
    const dues = await database.query(
      'SELECT athlete_id, webhook_due_at <= now() AS due FROM athlete_schedule WHERE athlete_id = ANY ($1) ORDER BY athlete_id',
      [[ahead, right]],
    );
    expect(dues).toEqual([
      { athlete_id: ahead, due: true },
      { athlete_id: right, due: false },
    ]);
  });
});
