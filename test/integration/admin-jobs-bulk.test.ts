import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { requestFetches } from '../../src/queue/requests.ts';
import { ask } from '../support/admin.ts';
import { finishJob } from '../support/finish-job.ts';
import { putJobs } from '../support/put-jobs.ts';
import { request } from '../support/requests.ts';
import { type Rig, startRig } from '../support/service.ts';
import { until } from '../support/until.ts';

let rig: Rig;
let lastId = 7_000_000_000_000_000n;
const newId = () => {
  lastId += 1n;
  return String(lastId);
};
const JOBS = '/api/admin/activity-jobs';

const create = (fields: unknown) => ask(rig, 'POST', JOBS, fields);
const jobOf = async (activityId: string) => (await ask(rig, 'GET', `${JOBS}?activityId=${activityId}`)).body.jobs[0];

// Without a fetch worker jobs stay as they are put.
beforeAll(async () => {
  rig = await startRig({ env: { SERVICE_ROLES: 'web' } });
});
afterAll(() => rig.close());

describe('DELETE /api/admin/activity-jobs', () => {
  it('needs a status', async () => {
    const { status, body } = await ask(rig, 'DELETE', JOBS);
    expect(status).toBe(400);
    expect(body.errors).toEqual([{ field: 'query.status', message: expect.any(String) }]);
  });

  it('deletes jobs of that status only, older than so many hours, with their pg-boss jobs', async () => {
    const athleteId = '41';
    const make = async (outcome?: 'stored' | 'notFound', daysAgo = 0) => {
      const { body } = await create({ activityId: newId(), athleteId });
      if (outcome) await finishJob(rig, body.id, outcome, daysAgo);
      return body.id as string;
    };
    const [fresh, , failed, open] = [
      await make('stored'),
      await make('stored', 2),
      await make('notFound', 2),
      await make(),
    ];
    const left = async () =>
      (await ask(rig, 'GET', `${JOBS}?athleteId=${athleteId}`)).body.jobs.map(({ id }: { id: string }) => id);
    const remove = async (query: string) => (await ask(rig, 'DELETE', `${JOBS}?athleteId=${athleteId}&${query}`)).body;
    expect(await remove('status=done&olderThan=24')).toEqual({ deleted: 1 });
    expect(await left()).toEqual([open, failed, fresh]);
    expect(await remove('status=done')).toEqual({ deleted: 1 });
    expect(await remove('status=failed&olderThan=49')).toEqual({ deleted: 0 });
    expect(await remove('status=failed&olderThan=0')).toEqual({ deleted: 1 });
    expect(await remove('status=pending')).toEqual({ deleted: 1 });
    expect(await left()).toEqual([]);
    const bossJobs = await rig.service.database.query(
      `SELECT FROM pgboss.job WHERE name = 'activity-fetch' AND group_id = '41'`,
    );
    expect(bossJobs).toEqual([]);
  });

  it('deletes only jobs that failed with the error and in the time of the filter', async () => {
    const athleteId = '44';
    const make = async (error: string, daysAgo = 0) => {
      const { body } = await create({ activityId: newId(), athleteId });
      await finishJob(rig, body.id, 'notFound', daysAgo);
      await rig.service.database.query(
        `UPDATE pgboss.job SET output = jsonb_build_object('message', $2::text)
         WHERE name = 'activity-fetch' AND id = (SELECT boss_job_id FROM activity_fetch_job WHERE id = $1)`,
        [body.id, error],
      );
      return body.id as string;
    };
    const call = (id: number) => `GET /api/v3/activities/${id}: the provider`;
    const [reset, timeout, old, gone] = [
      await make(`${call(12345)} did not answer within 10012 ms`),
      await make(`${call(98765)} did not answer within 10999 ms`),
      await make(`${call(98766)} did not answer within 10001 ms`, 3),
      await make(`${call(12346)} answered HTTP 404`),
    ];
    const { body } = await ask(rig, 'GET', `${JOBS}/errors?athleteId=${athleteId}`);
    expect(body).toEqual({
      groups: [
        { error: 'the provider did not answer within … ms', jobs: 3, newestAt: expect.any(String), newestJobId: old },
        { error: 'the provider answered HTTP 404', jobs: 1, newestAt: expect.any(String), newestJobId: gone },
      ],
      jobs: 4,
      isWhole: true,
    });
    const since = encodeURIComponent(new Date(Date.now() - 86_400_000).toISOString());
    const query = `athleteId=${athleteId}&status=failed&error=${encodeURIComponent('Within 10000 ms')}&since=${since}`;
    expect((await ask(rig, 'GET', `${JOBS}/count?${query}`)).body).toEqual({ count: 2 });
    const listed = (await ask(rig, 'GET', `${JOBS}?${query}`)).body.jobs.map(({ id }: { id: string }) => id);
    expect(listed).toEqual([timeout, reset]);
    expect((await ask(rig, 'DELETE', `${JOBS}?${query}`)).body).toEqual({ deleted: 2 });
    expect((await ask(rig, 'GET', `${JOBS}/count?athleteId=${athleteId}`)).body).toEqual({ count: 2 });
  });

  it('deletes more than one batch', async () => {
    const { database } = rig.service;
    const requests = Array.from({ length: 1100 }, () => ({
      activityId: newId(),
      athleteId: '42',
      reason: 'polling' as const,
      force: false,
    }));
    await database.transaction((tx) => requestFetches(rig.service.boss, tx, requests));
    const { body } = await ask(rig, 'DELETE', `${JOBS}?status=pending&athleteId=42`);
    expect(body).toEqual({ deleted: 1100 });
  });

  it('deletes a single job, and answers 404 the second time', async () => {
    const { body } = await create({ activityId: newId(), athleteId: '43' });
    expect(await ask(rig, 'DELETE', `${JOBS}/${body.id}`)).toMatchObject({ status: 200, body: { deleted: 1 } });
    expect((await ask(rig, 'DELETE', `${JOBS}/${body.id}`)).status).toBe(404);
  });
});

describe('POST /api/admin/activity-jobs/retry', () => {
  it('reopens all finished jobs that match, more than one batch, and says how many', async () => {
    const { database, boss } = rig.service;
    const requests = Array.from({ length: 1100 }, () => ({
      activityId: newId(),
      athleteId: '51',
      reason: 'polling' as const,
      force: false,
    }));
    await database.transaction((tx) => requestFetches(rig.service.boss, tx, requests));
    const rows = await database.query<{ boss_job_id: string }>(
      `UPDATE activity_fetch_job SET outcome = 'notFound' WHERE athlete_id = 51 RETURNING boss_job_id`,
    );
    await boss.cancel(
      'activity-fetch',
      rows.map(({ boss_job_id }) => boss_job_id),
    );
    const other = await create({ activityId: newId(), athleteId: '52' });
    await finishJob(rig, other.body.id, 'notFound');
    const { body } = await ask(rig, 'POST', `${JOBS}/retry?status=failed&athleteId=51`);
    expect(body).toEqual({ retried: 1100 });
    expect((await ask(rig, 'GET', `${JOBS}/count?athleteId=51&status=pending`)).body).toEqual({ count: 1100 });
    expect((await ask(rig, 'GET', `${JOBS}/count?athleteId=52&status=failed`)).body).toEqual({ count: 1 });
  });

  it('reopens one finished job, with no attempts used', async () => {
    const { body } = await create({ activityId: newId(), athleteId: '53' });
    await finishJob(rig, body.id, 'notFound');
    expect(await ask(rig, 'POST', `${JOBS}/${body.id}/retry`)).toMatchObject({
      status: 200,
      body: { id: body.id, status: 'pending', attempts: 0, outcome: null },
    });
  });

  it.each(['', '?status=pending', '?status=working'])(
    'refuses %p, since such jobs run without a retry',
    async (query) => {
      const { status, body } = await ask(rig, 'POST', `${JOBS}/retry${query}`);
      expect(status).toBe(400);
      expect(body.errors[0].field).toBe('query.status');
    },
  );

  it('answers 404 for a job that does not exist', async () => {
    expect((await ask(rig, 'POST', `${JOBS}/999999999/retry`)).status).toBe(404);
  });
});

describe('the kept counts', () => {
  it('stay exact through insert, change, delete and folding', async () => {
    const { database } = rig.service;
    const activityId = newId();
    await request(rig, activityId, '61', 'polling');
    await database.query('SELECT compact_job_counts()');
    await finishJob(rig, (await jobOf(activityId)).id, 'stored');
    await database.query(`UPDATE activity_fetch_job SET reason = 'webhook' WHERE activity_id = $1`, [activityId]);
    const kept =
      'SELECT reason, outcome, sum(jobs)::int AS jobs FROM job_count GROUP BY 1, 2 HAVING sum(jobs) <> 0 ORDER BY 1, 2';
    const counted = 'SELECT reason, outcome, count(*)::int AS jobs FROM activity_fetch_job GROUP BY 1, 2 ORDER BY 1, 2';
    expect(await database.query(kept)).toEqual(await database.query(counted));
    await Promise.all([1, 2, 3, 4].map(() => database.query('SELECT compact_job_counts()')));
    expect(await database.query(kept)).toEqual(await database.query(counted));
  });

  it('are zero once the jobs are truncated, even during folding', async () => {
    const { database } = rig.service;
    await request(rig, newId(), '62', 'polling');
    const truncating = await database.transaction(async (tx) => {
      await tx.query('SELECT compact_job_counts()');
      const truncated = database.query('TRUNCATE activity_fetch_job CASCADE');
      const waits = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'TRUNCATE%' AND wait_event_type = 'Lock'`;
      await until(async () => (await database.query(waits)).length > 0, 'a wait of the truncation');
      return { truncated };
    });
    await truncating.truncated;
    expect(await database.query('SELECT * FROM job_count')).toEqual([]);
  });
});

describe('POST /api/admin/job-changes', () => {
  const CHANGES = '/api/admin/job-changes';
  const changeOf = async (id: string) =>
    (await ask(rig, 'GET', CHANGES)).body.changes.find((change: { id: string }) => change.id === id);
  const untilState = (id: string, state: string) =>
    until(async () => (await changeOf(id))?.state === state, `a bulk change that is ${state}`);

  it('changes all jobs that match in the background, and says how far it came', async () => {
    await putJobs(rig, '81', 1100);
    const { status, body } = await ask(rig, 'POST', CHANGES, { action: 'delete', status: 'pending', athleteId: '81' });
    expect({ status, body }).toEqual({ status: 202, body: { id: expect.any(String), total: 1100 } });
    await untilState(body.id, 'finished');
    expect(await changeOf(body.id)).toMatchObject({
      action: 'delete',
      filter: { status: 'pending', athleteId: '81' },
      by: 'admin',
      total: 1100,
      changed: 1100,
      error: null,
      finishedAt: expect.any(String),
    });
    expect((await ask(rig, 'GET', `${JOBS}/count?athleteId=81`)).body).toEqual({ count: 0 });
    expect((await ask(rig, 'POST', `${CHANGES}/${body.id}/cancel`)).status).toBe(409);
  });

  it('ends behind its current batch when it is cancelled; what is changed stays', async () => {
    await putJobs(rig, '82', 1100);
    const { body } = await rig.service.database.transaction(async (tx) => {
      await tx.query('SELECT FROM athlete_schedule WHERE athlete_id = 82 FOR UPDATE');
      const started = await ask(rig, 'POST', CHANGES, { action: 'delete', status: 'pending', athleteId: '82' });
      expect((await ask(rig, 'POST', `${CHANGES}/${started.body.id}/cancel`)).body).toEqual({ cancelled: true });
      return started;
    });
    await untilState(body.id, 'cancelled');
    expect((await changeOf(body.id)).changed).toBe(500);
    expect((await ask(rig, 'GET', `${JOBS}/count?athleteId=82`)).body).toEqual({ count: 600 });
  });

  it('counts as interrupted when its process has died, and is forgotten with its athlete', async () => {
    const { database } = rig.service;
    const [row] = await database.query<{ id: string }>(
      `INSERT INTO bulk_change (action, filter, athlete_id, requested_by, total, stepped_at)
       VALUES ('retry', '{}', 83, 'admin', 9, sync_now() - interval '2 minutes') RETURNING id`,
    );
    const { id } = row as { id: string };
    expect(await changeOf(id)).toMatchObject({ state: 'interrupted', changed: 0 });
    await putJobs(rig, '83', 1);
    expect((await ask(rig, 'DELETE', '/api/admin/athletes/83')).status).toBe(200);
    expect(await changeOf(id)).toBeUndefined();
  });

  it('refuses to retry jobs that have not ended', async () => {
    const { status, body } = await ask(rig, 'POST', CHANGES, { action: 'retry', status: 'pending' });
    expect(status).toBe(400);
    expect(body.errors).toEqual([{ field: 'body.status', message: expect.stringContaining('failed or done') }]);
  });
});
