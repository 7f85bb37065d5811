import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { ask } from '../support/admin.ts';
import { finishJob } from '../support/finish-job.ts';
import { type Rig, startRig } from '../support/service.ts';

let rig: Rig;
let lastId = 7_000_000_000_000_000n;
const newId = () => {
  lastId += 1n;
  return String(lastId);
};
const JOBS = '/api/admin/activity-jobs';
const FIELDS = [
  'id',
  'activityId',
  'athleteId',
  'reason',
  'force',
  'status',
  'attempts',
  'maxAttempts',
  'nextRunAt',
  'error',
  'createdAt',
  'updatedAt',
  'outcome',
];

const create = (fields: unknown) => ask(rig, 'POST', JOBS, fields);
const jobOf = async (activityId: string) => (await ask(rig, 'GET', `${JOBS}?activityId=${activityId}`)).body.jobs[0];

// Without a fetch worker jobs stay as they are put.
beforeAll(async () => {
  rig = await startRig({ env: { SERVICE_ROLES: 'web' } });
});
afterAll(() => rig.close());

describe('POST /api/admin/activity-jobs', () => {
  it('answers 201 with a job of exactly the documented fields and the outcome', async () => {
    const activityId = newId();
    const { status, body } = await create({ activityId, athleteId: '11', reason: 'manual', force: true });
    expect(status).toBe(201);
    expect(Object.keys(body).sort()).toEqual([...FIELDS].sort());
    expect(body).toMatchObject({
      activityId,
      athleteId: '11',
      reason: 'manual',
      force: true,
      status: 'pending',
      attempts: 0,
      maxAttempts: 5,
      error: null,
      outcome: null,
    });
    expect(body.id).toMatch(/^[0-9]+$/);
    for (const field of ['nextRunAt', 'createdAt', 'updatedAt'])
      expect(new Date(body[field]).toISOString()).toBe(body[field]);
  });

  it('defaults to the reason manual, without force', async () => {
    expect((await create({ activityId: newId(), athleteId: '11' })).body).toMatchObject({
      reason: 'manual',
      force: false,
    });
  });

  it('answers 200 with the existing job and its stronger reason', async () => {
    const activityId = newId();
    const first = await create({ activityId, athleteId: '11', reason: 'polling' });
    const second = await create({ activityId, athleteId: '11', force: true });
    expect(second.status).toBe(200);
    expect(second.body).toMatchObject({ id: first.body.id, reason: 'manual', force: true });
  });

  it('answers 201 when a finished job is reopened, with the same id', async () => {
    const activityId = newId();
    const first = await create({ activityId, athleteId: '11' });
    await finishJob(rig, first.body.id, 'stored');
    const second = await create({ activityId, athleteId: '11' });
    expect(second).toMatchObject({ status: 201, body: { id: first.body.id, status: 'pending', outcome: null } });
  });

  it('keeps ids exact to 2^63-1, as numbers and as strings', async () => {
    const athleteId = '9223372036854775807';
    for (const activityId of ['9007199254740993', '9223372036854775807']) {
      const { status, body } = await create(`{"activityId": ${activityId}, "athleteId": "${athleteId}"}`);
      expect(status).toBe(201);
      expect(body).toMatchObject({ activityId, athleteId });
      expect(await jobOf(activityId)).toMatchObject({ activityId, athleteId });
    }
  });

  it('refuses an activity that has a job for another athlete', async () => {
    const activityId = newId();
    const { body } = await create({ activityId, athleteId: '11' });
    const answer = await create({ activityId, athleteId: '12' });
    expect(answer.status).toBe(409);
    expect(answer.body.detail).toContain(body.id);
  });

  it.each([
    ['nothing', {}, ['body.activityId', 'body.athleteId']],
    ['an id of zero', { activityId: '0', athleteId: '1' }, ['body.activityId']],
    ['an id beyond 2^63-1', { activityId: '9223372036854775808', athleteId: '1' }, ['body.activityId']],
    ['a negative id', { activityId: -5, athleteId: '1' }, ['body.activityId']],
    ['an unknown reason', { activityId: '5', athleteId: '1', reason: 'whim' }, ['body.reason']],
    ['force as text', { activityId: '5', athleteId: '1', force: 'yes' }, ['body.force']],
    ['an unknown field', { activityId: '5', athleteId: '1', colour: 'red' }, ['body.colour']],
  ])('names the bad fields of %s', async (_what, body, fields) => {
    const answer = await create(body);
    expect(answer.status).toBe(400);
    expect(answer.headers.get('content-type')).toContain('application/problem+json');
    expect(answer.body.errors.map(({ field }: { field: string }) => field)).toEqual(fields);
  });
});

describe('GET /api/admin/activity-jobs', () => {
  const athleteId = '21';
  const ids: string[] = [];
  beforeAll(async () => {
    for (let index = 0; index < 5; index += 1)
      ids.push((await create({ activityId: newId(), athleteId, reason: index % 2 ? 'manual' : 'polling' })).body.id);
    await finishJob(rig, ids[0] as string, 'stored');
    await finishJob(rig, ids[1] as string, 'notFound');
  });
  const list = async (query: string) => {
    const { body } = await ask(rig, 'GET', `${JOBS}?athleteId=${athleteId}&${query}`);
    return body.jobs.map(({ id }: { id: string }) => id);
  };

  it('lists newest first, by status, reason and activity', async () => {
    const [done, failed, polling, manual, newest] = ids;
    expect(await list('')).toEqual([...ids].reverse());
    expect(await list('status=pending')).toEqual([newest, manual, polling]);
    expect(await list('status=working')).toEqual([]);
    expect(await list('status=done')).toEqual([done]);
    expect(await list('status=failed')).toEqual([failed]);
    expect(await list('reason=manual')).toEqual([manual, failed]);
    expect(await list('reason=polling&status=pending')).toEqual([newest, polling]);
    const { body } = await ask(rig, 'GET', `${JOBS}/${manual}`);
    expect(await list(`activityId=${body.job.activityId}`)).toEqual([manual]);
  });

  it('shows the same jobs for a status with and without other filters', async () => {
    for (const filter of ['', 'athleteId=21', 'reason=polling', 'athleteId=21&reason=polling'])
      for (const status of ['pending', 'working', 'done', 'failed']) {
        const all = (await ask(rig, 'GET', `${JOBS}?limit=200&${filter}`)).body.jobs;
        const some = (await ask(rig, 'GET', `${JOBS}?limit=200&${filter}&status=${status}`)).body.jobs;
        expect(some).toEqual(all.filter((job: { status: string }) => job.status === status));
        const count = await ask(rig, 'GET', `${JOBS}/count?${filter}&status=${status}`.replace('?&', '?'));
        expect(count.body.count).toBe(some.length);
      }
  });

  it('counts every job whatever the filter', async () => {
    const { body } = await ask(rig, 'GET', `${JOBS}?athleteId=${athleteId}&status=failed`);
    const rows = await rig.service.database.query<{ status: string; jobs: number }>(
      'SELECT status, count(*)::int AS jobs FROM "ActivityFetchJob" GROUP BY status',
    );
    const counted = Object.fromEntries(rows.map(({ status, jobs }) => [status, jobs]));
    const total = rows.reduce((sum, { jobs }) => sum + jobs, 0);
    expect(body.stats).toEqual({ pending: 0, working: 0, done: 0, failed: 0, ...counted, total });
  });

  it('pages by a cursor that new jobs do not move', async () => {
    const seen: string[] = [];
    let cursor: string | null = null;
    do {
      const query: string = `limit=2${cursor ? `&cursor=${cursor}` : ''}`;
      const { body } = await ask(rig, 'GET', `${JOBS}?athleteId=${athleteId}&${query}`);
      seen.push(...body.jobs.map(({ id }: { id: string }) => id));
      cursor = body.nextCursor;
      await create({ activityId: newId(), athleteId });
    } while (cursor !== null);
    expect(seen).toEqual([...ids].reverse());
  });

  it.each(['limit=0', 'limit=201', 'limit=ten', 'status=gone', 'reason=whim', 'athleteId=x', 'cursor=', 'color=red'])(
    'refuses %s and names it',
    async (query) => {
      const { status, body } = await ask(rig, 'GET', `${JOBS}?${query}`);
      expect(status).toBe(400);
      expect(body.errors[0].field).toBe(`query.${query.split('=')[0]}`);
    },
  );
});

describe('GET /api/admin/activity-jobs/{id}', () => {
  it('shows the deliveries behind a job, and that it waits for a worker', async () => {
    const object_id = newId();
    const event_time = 1_700_000_000;
    for (const aspect_type of ['create', 'create', 'update'])
      await rig.post({
        object_type: 'activity',
        object_id,
        aspect_type,
        owner_id: 31,
        subscription_id: 1,
        event_time: event_time + (aspect_type === 'update' ? 9 : 0),
        updates: aspect_type === 'update' ? { title: 'New' } : {},
      });
    const { id } = await jobOf(object_id);
    const { body } = await ask(rig, 'GET', `${JOBS}/${id}`);
    expect(body).toMatchObject({
      job: { id, activityId: object_id, reason: 'webhook', force: true },
      attempts: [],
      deliveries: [
        { aspect: 'update', deliveries: 1, updates: { title: 'New' }, eventTime: '2023-11-14T22:13:29.000Z' },
        { aspect: 'create', deliveries: 2, result: 'accepted' },
      ],
      whyNotSooner: { cause: 'turn', until: null },
    });
  });

  it('says that a job waits for its athlete’s cooldown, or for the budget, whichever ends later', async () => {
    const activityId = newId();
    const { body: job } = await create({ activityId, athleteId: '32', reason: 'polling' });
    const why = async () => (await ask(rig, 'GET', `${JOBS}/${job.id}`)).body.whyNotSooner;
    const { database } = rig.service;
    await database.query(
      `UPDATE athlete_schedule SET cooldown_until = now() + interval '1 minute' WHERE athlete_id = 32`,
    );
    const cooldown = await why();
    expect(cooldown.cause).toBe('cooldown');
    expect(Date.parse(cooldown.until)).toBeGreaterThan(Date.now() + 50_000);
    await database.query(`UPDATE rate_budget SET blocked_until = now() + interval '1 hour', blocked_by = 'a test'`);
    expect(await why()).toMatchObject({ cause: 'budget' });
    expect((await ask(rig, 'GET', '/api/admin/budget')).body).toMatchObject({ blockedBy: 'a test' });
    await database.query(`UPDATE rate_budget SET blocked_until = '-infinity'`);
    expect(await why()).toMatchObject({ cause: 'cooldown' });
  });

  it('answers 404 for a job that does not exist', async () => {
    expect((await ask(rig, 'GET', `${JOBS}/999999999`)).status).toBe(404);
  });
});
