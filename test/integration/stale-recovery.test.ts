import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { ActivityEvent } from '../../src/domain/job.ts';
import { acceptEvents } from '../../src/queue/accept.ts';
import { wakeForgottenLanes } from '../../src/queue/rescue.ts';
import { type Rig, startRig } from '../support/service.ts';
import { BACKOFF_MS, playWorker, SOME_PROCESS } from '../support/settling.ts';
import { until } from '../support/until.ts';

let rig: Rig;
let worker: ReturnType<typeof playWorker>;
beforeAll(async () => {
  rig = await startRig({ env: { SERVICE_ROLES: 'web' } });
  rig.simulator.subscribe(`${rig.service.url}/api/provider/webhook`);
  worker = playWorker(rig.service);
});
afterAll(() => rig.close());
// The jobs of the tests before stay where they are.
beforeEach(() => rig.service.database.query('UPDATE lane SET due_at = NULL'));

const jobOf = (id: string) => rig.untilJob(id, () => true);
const attemptsOf = (id: string) =>
  rig.service.database.query(
    'SELECT a.result, a.error FROM fetch_attempt a JOIN activity_fetch_job j ON j.id = a.job_id WHERE j.activity_id = $1 ORDER BY a.id',
    [id],
  );
const isDue = ({ nextRunAt }: { nextRunAt: Date }) => nextRunAt.getTime() <= Date.now();

describe('stale jobs, of which one is of a locked athlete', () => {
  it('are reclaimed except for that one, which follows when its athlete is free', async () => {
    const ids: string[] = [];
    for (const athleteId of [await rig.connectAthlete(), await rig.connectAthlete()])
      ids.push((await rig.simulator.createActivityAndNotify(athleteId)).id);
    const [locked, free] = ids as [string, string];
    for (const _ of ids) await worker.claim();
    await rig.service.database.transaction(async (tx) => {
      await tx.query(
        `SELECT FROM athlete_schedule s JOIN activity_fetch_job j USING (athlete_id) WHERE j.activity_id = $1 FOR UPDATE OF s`,
        [locked],
      );
      expect(await worker.rescue({ stale: true })).toEqual({ dead: 0, stale: 1, lost: 0 });
      expect(await jobOf(free)).toMatchObject({ status: 'pending', attempts: 1 });
      expect(await jobOf(locked)).toMatchObject({ status: 'working', attempts: 0 });
    });

    expect(await worker.rescue({ stale: true })).toEqual({ dead: 0, stale: 1, lost: 0 });
    expect(await jobOf(locked)).toMatchObject({ status: 'pending', attempts: 1 });
  });
});

describe('a job whose worker died', () => {
  it('is due at once when it is reclaimed for the first time, and after the backoff the second time', async () => {
    const { id } = await rig.simulator.createActivityAndNotify(await rig.connectAthlete());
    await worker.claim();
    expect(await worker.rescue({ dead: [SOME_PROCESS] })).toEqual({ dead: 1, stale: 0, lost: 0 });
    const first = await jobOf(id);
    expect(first).toMatchObject({ status: 'pending', attempts: 1 });
    expect(isDue(first)).toBe(true);

    await worker.claim();
    const before = Date.now();
    expect(await worker.rescue({ dead: [SOME_PROCESS] })).toEqual({ dead: 1, stale: 0, lost: 0 });
    const second = await jobOf(id);
    expect(second).toMatchObject({ status: 'pending', attempts: 2 });
    expect(second.nextRunAt.getTime()).toBeGreaterThanOrEqual(before + BACKOFF_MS - 1000);
    const died = {
      result: 'retry',
      error: 'The worker process died during the run; the job was reclaimed.',
    };
    expect(await attemptsOf(id)).toEqual([died, died]);
  });

  it('is due at once again after it was finished and requested again', async () => {
    const athleteId = await rig.connectAthlete();
    const { id } = await rig.simulator.createActivityAndNotify(athleteId);
    await worker.claim();
    await worker.rescue({ dead: [SOME_PROCESS] });
    const run = await worker.claim();
    await worker.completer.settle(run, { kind: 'ended', outcome: 'skipped' }, { until: performance.now() });
    await rig.simulator.deliver({ object_id: id, owner_id: athleteId, aspect_type: 'update' });
    await worker.claim();
    await worker.rescue({ dead: [SOME_PROCESS] });
    expect(isDue(await jobOf(id))).toBe(true);
  });

  it('is not reclaimed while its worker is alive', async () => {
    const { id } = await rig.simulator.createActivityAndNotify(await rig.connectAthlete());
    await worker.claim();
    expect(await worker.rescue({ dead: [SOME_PROCESS + 1] })).toEqual({ dead: 0, stale: 0, lost: 0 });
    expect(await jobOf(id)).toMatchObject({ status: 'working', attempts: 0 });
    await worker.rescue({ stale: true });
  });

  it('frees its athlete at once: a dead worker makes no more calls, and only the cooldown remains', async () => {
    const { id } = await rig.simulator.createActivityAndNotify(await rig.connectAthlete());
    await worker.claim({ holdMs: 600_000 });
    await worker.rescue({ dead: [SOME_PROCESS] });
    expect(isDue(await jobOf(id))).toBe(true);
  });
});

describe('a stale job', () => {
  it('leaves its athlete held: the slow worker may still be calling', async () => {
    const { id } = await rig.simulator.createActivityAndNotify(await rig.connectAthlete());
    await worker.claim({ holdMs: 600_000 });
    await worker.rescue({ stale: true });
    const job = await jobOf(id);
    expect(job).toMatchObject({ status: 'pending', attempts: 1 });
    expect(job.nextRunAt.getTime()).toBeGreaterThan(Date.now() + 500_000);
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
  const eventOf = (ownerId: string, objectId: string): ActivityEvent => ({
    objectId,
    ownerId,
    aspect: 'update',
    eventTime: new Date('2100-01-01T00:00:00Z'), // counts as of its arrival
    subscriptionId: '1',
    updates: {},
    signed: false,
  });
  const accept = (events: ActivityEvent[]) =>
    rig.service.database.transaction((tx) => acceptEvents(rig.service.boss, tx, events));
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
    const { database } = rig.service;
    const [other, athleteId] = [await rig.connectAthlete(), await rig.connectAthlete()];
    const id = await onLastAttempt(athleteId);
    const events = [eventOf(other, rig.simulator.addActivity(other).id), eventOf(athleteId, id)];
    await database.query('INSERT INTO athlete_schedule (athlete_id) VALUES ($1) ON CONFLICT DO NOTHING', [other]);
    const { delivery } = await database.transaction(async (tx) => {
      await tx.query('SELECT FROM athlete_schedule WHERE athlete_id = $1 FOR UPDATE', [other]);
      const delivery = accept(events);
      await waitsFor('SELECT athlete_id FROM athlete_schedule');
      expect(await worker.claim()).toMatchObject({ activityId: id, attempts: 5 });
      return { delivery };
    });
    expect(await delivery).toMatchObject([{ result: 'accepted' }, { result: 'accepted' }]);

    expect(await worker.rescue({ stale: true })).toEqual({ dead: 0, stale: 1, lost: 0 });
    expect(await jobOf(id)).toMatchObject({ status: 'pending', attempts: 0 });
  });

  it('is followed by none for an event that came before it', async () => {
    const athleteId = await rig.connectAthlete();
    const id = await onLastAttempt(athleteId);
    await accept([eventOf(athleteId, id)]);
    expect(await worker.claim()).toMatchObject({ activityId: id, attempts: 5, version: 2 });

    expect(await worker.rescue({ stale: true })).toEqual({ dead: 0, stale: 1, lost: 0 });
    expect(await jobOf(id)).toMatchObject({ status: 'failed', outcome: 'exhausted' });
  });
});

describe('lanes whose due times were lost', () => {
  it('are woken, a locked one at the next check', async () => {
    const { database } = rig.service;
    const athletes = [await rig.connectAthlete(), await rig.connectAthlete(), await rig.connectAthlete()];
    await wakeForgottenLanes(database, 60_000); // those of the tests before
    for (const athleteId of athletes) await rig.simulator.createActivityAndNotify(athleteId);
    await database.query('UPDATE lane SET due_at = NULL WHERE athlete_id = ANY ($1)', [athletes]);
    await database.transaction(async (tx) => {
      await tx.query('SELECT FROM lane WHERE athlete_id = $1 FOR UPDATE', [athletes[1]]);
      expect(await wakeForgottenLanes(database, 60_000)).toBe(2);
    });
    expect(await wakeForgottenLanes(database, 60_000)).toBe(1);
  });
});

describe('an athlete whose cooldown was set by a clock that was a year ahead', () => {
  it('is no longer blocked; one whose cooldown may be right still is', async () => {
    const { database } = rig.service;
    const [ahead, right] = [await rig.connectAthlete(), await rig.connectAthlete()];
    for (const athleteId of [ahead, right]) await rig.simulator.createActivityAndNotify(athleteId);
    const keep = (athleteId: string, wait: string) =>
      database.query(`UPDATE athlete_schedule SET cooldown_until = now() + $2::interval WHERE athlete_id = $1`, [
        athleteId,
        wait,
      ]);
    await keep(ahead, '1 year');
    await keep(right, '1 minute');
    await wakeForgottenLanes(database, 60_000);
    const cooldowns = await database.query(
      'SELECT athlete_id, cooldown_until <= now() AS over FROM athlete_schedule WHERE athlete_id = ANY ($1) ORDER BY athlete_id',
      [[ahead, right]],
    );
    expect(cooldowns).toEqual([
      { athlete_id: ahead, over: true },
      { athlete_id: right, over: false },
    ]);
  });
});
