import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { REASONS, STATUSES } from '../../src/domain/job.ts';
import type { Database, Queryable } from '../../src/infra/database.ts';
import { readFetchJobs } from '../../src/store/fetch-jobs.ts';
import { type JobFilter, listJobIds } from '../../src/store/job-pages.ts';
import { createTestDatabase, openTestDatabase, type TestDatabase } from '../support/database.ts';

const JOBS = 200_000;
const STATES = { pending: 4000, working: 3, failed: 600 }; // the rest is done

let testDatabase: TestDatabase;
let database: Database;

beforeAll(async () => {
  testDatabase = await createTestDatabase();
  database = openTestDatabase(testDatabase.url);
  await fill();
}, 120_000);
afterAll(async () => {
  await database.close();
  await testDatabase.drop();
});

describe('the view "ActivityFetchJob"', () => {
  it('has exactly the documented fields, with their types and defaults', async () => {
    const columns = await database.query(
      `SELECT column_name AS name, data_type AS type, column_default AS default
       FROM information_schema.columns WHERE table_schema = 'public' AND table_name = 'ActivityFetchJob' ORDER BY ordinal_position`,
    );
    const time = 'timestamp with time zone';
    expect(columns).toEqual([
      { name: 'id', type: 'bigint', default: null },
      { name: 'activityId', type: 'bigint', default: null },
      { name: 'athleteId', type: 'bigint', default: null },
      { name: 'reason', type: 'text', default: null },
      { name: 'force', type: 'boolean', default: 'false' },
      { name: 'status', type: 'text', default: `'pending'::text` },
      { name: 'attempts', type: 'integer', default: '0' },
      { name: 'maxAttempts', type: 'integer', default: '5' },
      { name: 'nextRunAt', type: time, default: 'now()' },
      { name: 'error', type: 'text', default: null },
      { name: 'createdAt', type: time, default: 'now()' },
      { name: 'updatedAt', type: time, default: 'now()' },
    ]);
    const [id] = await database.query(
      `SELECT is_identity, data_type FROM information_schema.columns WHERE table_name = 'activity_fetch_job' AND column_name = 'id'`,
    );
    expect(id).toEqual({ is_identity: 'YES', data_type: 'bigint' });
  });

  it('shows each job once, with the status that pg-boss keeps', async () => {
    const rows = await database.query<{ status: string; jobs: number }>(
      'SELECT status, count(*)::int AS jobs FROM "ActivityFetchJob" GROUP BY status ORDER BY status',
    );
    expect(Object.fromEntries(rows.map(({ status, jobs }) => [status, jobs]))).toEqual({
      ...STATES,
      done: JOBS - STATES.pending - STATES.working - STATES.failed,
    });
  });
});

describe(`with ${JOBS} jobs, a lookup reads an index, never the whole table`, () => {
  it.each([
    ['by status and nextRunAt', `status = 'pending' AND "nextRunAt" <= now() ORDER BY "nextRunAt" LIMIT 50`],
    ['by status: pending', `status = 'pending' ORDER BY id DESC LIMIT 50`],
    ['by status: working', `status = 'working' ORDER BY id DESC LIMIT 50`],
    ['by status: failed', `status = 'failed' ORDER BY id DESC LIMIT 50`],
    ['by athleteId', `"athleteId" = 77 ORDER BY id DESC LIMIT 50`],
    ['by athleteId and status', `"athleteId" = 77 AND status = 'done' ORDER BY id DESC LIMIT 50`],
    ['by reason', `reason = 'manual' ORDER BY id DESC LIMIT 50`],
    ['by activityId', `"activityId" = 4711`],
    ['by id', 'id = 4711'],
  ])('in the view, %s', async (_case, condition) => {
    expect(await explain(`SELECT * FROM "ActivityFetchJob" WHERE ${condition}`)).toEqual(INDEXES_ONLY);
  });

  it.each<[string, JobFilter]>([
    ['of all', {}],
    ...STATUSES.map((status): [string, JobFilter] => [`of those that are ${status}`, { status }]),
    ...REASONS.map((reason): [string, JobFilter] => [`with the reason ${reason}`, { reason }]),
    ['of an athlete', { athleteId: '77' }],
    ['of an athlete that failed', { athleteId: '77', status: 'failed' }],
    ['with a reason that are done', { reason: 'polling', status: 'done' }],
  ])('for the newest 50 jobs %s', async (_case, filter) => {
    const plans: object[] = [];
    const explaining: Queryable = {
      query: async (text, values) => {
        plans.push(await explain(text, values));
        return database.query(text, values);
      },
      executeSql: database.executeSql,
    };
    const ids = await listJobIds(explaining, filter, undefined, 50);
    await readFetchJobs(explaining, ids);
    expect(plans).toEqual(plans.map(() => INDEXES_ONLY));
    expect(plans).not.toEqual([]);
  });
});

const INDEXES_ONLY = { scanned: [], plan: expect.any(String) };
// pg-boss's "queue" has a row for each of the two queues.
const SMALL = ['rate_budget', 'athlete_schedule', 'queue'];

async function explain(text: string, values?: unknown[]): Promise<{ scanned: unknown[]; plan: string }> {
  const rows = await database.query<{ 'QUERY PLAN': string }>(`EXPLAIN ${text}`, values);
  const plan = rows.map((row) => row['QUERY PLAN']).join('\n');
  const scanned = [...plan.matchAll(/Seq Scan on (\w+)/g)].map(([, table]) => table);
  return { scanned: scanned.filter((table) => !SMALL.includes(table ?? '')), plan };
}

describe('an upgrade of pg-boss', () => {
  const change = (statement: string) =>
    database.transaction(async (tx) => {
      await tx.query(statement);
      throw new Error('undone');
    });

  it.each([
    'ALTER TABLE pgboss.job ALTER COLUMN priority TYPE bigint',
    'ALTER TABLE pgboss.job RENAME COLUMN output TO result',
    'ALTER TABLE pgboss.job DROP COLUMN output',
    'DROP FUNCTION pgboss.job_now()',
  ])('is not blocked by the view: %s', async (statement) => {
    await expect(change(statement)).rejects.toThrow('undone');
  });

  it('finds nothing of ours that depends on its tables, functions or types', async () => {
    const dependants = await database.query(
      `WITH theirs AS (
         SELECT 'pg_class'::regclass AS classid, oid FROM pg_class WHERE relnamespace = 'pgboss'::regnamespace
         UNION ALL SELECT 'pg_proc'::regclass, oid FROM pg_proc WHERE pronamespace = 'pgboss'::regnamespace
         UNION ALL SELECT 'pg_type'::regclass, oid FROM pg_type WHERE typnamespace = 'pgboss'::regnamespace
       )
       SELECT pg_describe_object(d.classid, d.objid, d.objsubid) AS object FROM pg_depend d
       JOIN theirs t ON d.refclassid = t.classid AND d.refobjid = t.oid
       WHERE d.deptype = 'n' AND pg_describe_object(d.classid, d.objid, d.objsubid) NOT LIKE '%pgboss%'
         AND (d.classid, d.objid) NOT IN (SELECT classid, oid FROM theirs)
         AND (d.classid <> 'pg_constraint'::regclass OR EXISTS (SELECT FROM pg_constraint c WHERE c.oid = d.objid AND c.connamespace = 'public'::regnamespace))`,
    );
    expect(dependants).toEqual([]);
  });
});

/** Fills in jobs as they stand after months: most of them done, two thousand athletes. */
async function fill(): Promise<void> {
  const patient = database.reserve({ maxConnections: 1, statementMs: 0 });
  await patient.query(`INSERT INTO athlete_schedule (athlete_id) SELECT generate_series(1, 2000)`);
  await patient.query(`INSERT INTO lane (athlete_id, reason) SELECT generate_series(1, 2000), 'webhook'`);
  await patient.query(
    `INSERT INTO activity_fetch_job (activity_id, athlete_id, reason, outcome)
     SELECT n, 1 + n % 2000, CASE WHEN n % 400 = 0 THEN 'manual' WHEN n % 10 = 0 THEN 'polling' ELSE 'webhook' END,
       (CASE WHEN n > ${JOBS - STATES.pending - STATES.working} THEN NULL
         WHEN n % 100 = 50 AND n <= ${STATES.failed * 100} THEN 'notFound' ELSE 'stored' END)::fetch_outcome
     FROM generate_series(1, ${JOBS}) n`,
  );
  await patient.query(
    `INSERT INTO pgboss.job (id, name, state, priority, policy, singleton_key, group_id, data, started_on, completed_on, retry_limit, output)
     SELECT r.boss_job_id, 'activity-fetch',
       (CASE WHEN r.outcome = 'notFound' THEN 'failed' WHEN r.outcome IS NOT NULL THEN 'completed'
         WHEN r.id > ${JOBS - STATES.working} THEN 'active' ELSE 'created' END)::pgboss.job_state,
       l.lane, 'exclusive', r.activity_id::text, r.athlete_id::text, '{}',
       CASE WHEN r.outcome IS NOT NULL OR r.id > ${JOBS - STATES.working} THEN now() END,
       CASE WHEN r.outcome IS NOT NULL THEN now() END, 5, CASE WHEN r.outcome = 'notFound' THEN '{"message":"gone"}'::jsonb END
     FROM activity_fetch_job r JOIN lane l USING (athlete_id)`,
  );
  await patient.query('ANALYZE');
}
