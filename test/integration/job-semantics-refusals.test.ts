import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import type { Queryable } from '../../src/infra/database.ts';
import { lockTokens } from '../../src/store/athletes.ts';
import { type JobRow, type Rig, startRig } from '../support/service.ts';
import { untilThumbnail } from '../support/thumbnails.ts';
import { until } from '../support/until.ts';

let rig: Rig;
let athleteId: string;

beforeAll(async () => {
  rig = await startRig({ env: { FETCH_BACKOFF_BASE_MS: '50' } });
  rig.simulator.subscribe(`${rig.service.url}/api/provider/webhook`);
});
afterAll(() => rig.close());
afterEach(() => rig.simulator.faults.clear());
const newAthlete = async () => {
  athleteId = await rig.connectAthlete();
};

const isDone = ({ status }: JobRow) => status === 'done';
const isFailed = ({ status }: JobRow) => status === 'failed';
const callsFor = (id: string) => rig.simulator.calls.filter((call) => call.activityId === id).length;
const tokenCalls = () => rig.simulator.calls.filter(({ path }) => path === '/oauth/token').length;
const count = async (table: string, column: string, id: string) =>
  (await rig.service.database.query(`SELECT FROM ${table} WHERE ${column} = $1`, [id])).length;
const stateOf = async (id: string) =>
  (await rig.service.database.query('SELECT state, state_detail FROM athlete WHERE athlete_id = $1', [id]))[0];
const storedActivity = async () => {
  const { id } = await rig.simulator.createActivityAndNotify(athleteId);
  await rig.untilJob(id, isDone);
  await untilThumbnail(rig, id);
  return id;
};

describe('HTTP 401', () => {
  beforeAll(newAthlete);

  it('causes one token refresh and one immediate repeat', async () => {
    const { id } = rig.simulator.addActivity(athleteId);
    const refreshes = tokenCalls();
    rig.simulator.invalidateAccessToken(athleteId);
    await rig.simulator.deliver({ object_id: id, owner_id: athleteId });
    expect(await rig.untilJob(id, isDone)).toMatchObject({ outcome: 'stored', attempts: 0 });
    expect(callsFor(id)).toBe(2);
    expect(tokenCalls()).toBe(refreshes + 1);
    expect(await stateOf(athleteId)).toMatchObject({ state: 'healthy' });
  });

  it('of many jobs at once causes one refresh, whichever comes first', async () => {
    const activities = rig.simulator.addHistory(athleteId, 3);
    const refreshes = tokenCalls();
    rig.simulator.invalidateAccessToken(athleteId);
    const replica = await rig.startReplica({ SERVICE_ROLES: 'fetch' });
    await Promise.all(activities.map(({ id }) => rig.simulator.deliver({ object_id: id, owner_id: athleteId })));
    for (const { id } of activities) await rig.untilJob(id, isDone);
    expect(tokenCalls()).toBe(refreshes + 1);
    await replica.stop(1000);
  });
});

describe('HTTP 401 that persists', () => {
  beforeAll(newAthlete);

  it('is a permanent failure, and the athlete is shown as needing to reconnect', async () => {
    const { id } = rig.simulator.addActivity(athleteId);
    rig.simulator.faults.add({ kind: 'status', status: 401, match: { activityId: id } });
    await rig.simulator.deliver({ object_id: id, owner_id: athleteId });
    const job = await rig.untilJob(id, isFailed);
    expect(job).toMatchObject({ outcome: 'unauthorized', attempts: 0, error: expect.stringContaining('HTTP 401') });
    expect(callsFor(id)).toBe(2);
    expect(await stateOf(athleteId)).toMatchObject({ state: 'reconnect', state_detail: job.error });
  });

  it('causes no further call: later events fail without one until the athlete has reconnected', async () => {
    const { id } = rig.simulator.addActivity(athleteId);
    await rig.simulator.deliver({ object_id: id, owner_id: athleteId });
    expect(await rig.untilJob(id, isFailed)).toMatchObject({ outcome: 'unauthorized' });
    expect(callsFor(id)).toBe(0);
  });
});

describe('HTTP 403', () => {
  beforeAll(newAthlete);

  it('is a permanent failure of that job alone: the athlete stays healthy, and others of theirs are fetched', async () => {
    const { id } = rig.simulator.addActivity(athleteId);
    rig.simulator.faults.add({ kind: 'status', status: 403, match: { activityId: id } });
    await rig.simulator.deliver({ object_id: id, owner_id: athleteId });
    const job = await rig.untilJob(id, isFailed);
    expect(job).toMatchObject({ outcome: 'forbidden', attempts: 0, error: expect.stringContaining('HTTP 403') });
    expect(callsFor(id)).toBe(1);
    expect(await stateOf(athleteId)).toMatchObject({ state: 'healthy', state_detail: null });
    expect(callsFor(await storedActivity())).toBe(1);
  });
});

describe('an athlete whose token the provider refuses to refresh', () => {
  beforeAll(newAthlete);

  it('needs to reconnect: the job fails for good', async () => {
    const { id } = rig.simulator.addActivity(athleteId);
    rig.simulator.revoke(athleteId);
    await rig.simulator.deliver({ object_id: id, owner_id: athleteId });
    expect(await rig.untilJob(id, isFailed)).toMatchObject({ outcome: 'unauthorized', attempts: 0 });
    expect(await stateOf(athleteId)).toMatchObject({ state: 'reconnect' });
  });
});

describe('an athlete who reconnects while a job runs without their access', () => {
  beforeAll(newAthlete);

  it('during a call that is refused: is not shown as needing to reconnect, and the activity is fetched', async () => {
    const { id } = rig.simulator.addActivity(athleteId);
    const held = rig.simulator.faults.add({ kind: 'hold', status: 403, match: { activityId: id }, times: 1 });
    await rig.simulator.deliver({ object_id: id, owner_id: athleteId });
    await held.held;
    await rig.connectAthlete('Test Athlete', athleteId);
    held.release();
    expect(await rig.untilJob(id, (job) => isDone(job) || isFailed(job))).toMatchObject({
      outcome: 'stored',
      attempts: 0,
    });
    expect(await stateOf(athleteId)).toMatchObject({ state: 'healthy' });
  });

  it.each(['reconnect', 'scope'])(
    'just before the job ends without a call for %s: the activity is fetched',
    async (lack) => {
      const { database } = rig.service;
      const setState = (tx: Queryable, state: string) =>
        tx.query('UPDATE athlete SET state = $2 WHERE athlete_id = $1', [athleteId, state]);
      await setState(database, lack);
      const { id } = rig.simulator.addActivity(athleteId);
      await database.transaction(async (tx) => {
        await lockTokens(tx, athleteId); // as one who connects
        await rig.simulator.deliver({ object_id: id, owner_id: athleteId });
        await until(
          async () =>
            (await database.query(`SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted`)).length > 0,
          'the run that waits for the one who connects',
        );
        await setState(tx, 'healthy');
      });
      expect(await rig.untilJob(id, (job) => isDone(job) || isFailed(job))).toMatchObject({
        outcome: 'stored',
        attempts: 0,
      });
    },
  );
});

describe('a stored token that cannot be decrypted', () => {
  beforeAll(newAthlete);

  it('is retried, with the remedy in the job', async () => {
    const { id } = rig.simulator.addActivity(athleteId);
    const { database } = rig.service;
    const [sealed] = await database.query('SELECT access_token FROM athlete WHERE athlete_id = $1', [athleteId]);
    const setToken = (token: unknown) =>
      database.query('UPDATE athlete SET access_token = $2 WHERE athlete_id = $1', [athleteId, token]);
    await setToken('v1.00000000.AAAA');
    await rig.simulator.deliver({ object_id: id, owner_id: athleteId });
    const job = await rig.untilJob(id, ({ attempts }) => attempts > 0);
    expect(job.error).toContain('TOKEN_ENCRYPTION_KEY');
    await setToken(sealed?.access_token);
    expect(await rig.untilJob(id, ({ status }) => status !== 'pending' && status !== 'working')).toMatchObject({
      outcome: 'stored',
    });
    expect(callsFor(id)).toBe(1);
  });
});

describe('HTTP 404', () => {
  beforeAll(newAthlete);

  it('is a permanent failure, and an activity that was stored before is removed', async () => {
    const id = await storedActivity();
    rig.simulator.faults.add({ kind: 'status', status: 404, match: { activityId: id }, body: '' });
    await rig.simulator.deliver({ object_id: id, owner_id: athleteId, aspect_type: 'update' });
    const job = await rig.untilJob(id, isFailed);
    expect(job).toMatchObject({
      outcome: 'notFound',
      attempts: 0,
      error: `GET /api/v3/activities/${id}: the provider answered HTTP 404`,
    });
    expect(job.nextRunAt.getTime()).toBeLessThanOrEqual(job.updatedAt.getTime()); // none follows
    expect(await count('activity', 'activity_id', id)).toBe(0);
    expect(await count('thumbnail', 'activity_id', id)).toBe(0);
    expect(callsFor(id)).toBe(2);
  });
});
