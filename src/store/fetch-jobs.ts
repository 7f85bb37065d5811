import type { Int64 } from '../domain/int64.ts';
import type { JobStatus, Outcome, Reason } from '../domain/job.ts';
import type { Queryable } from '../infra/database.ts';

/** An ActivityFetchJob as JSON shows it: exactly the documented fields, and the outcome. */
export interface FetchJob {
  id: Int64;
  activityId: Int64;
  athleteId: Int64;
  reason: Reason;
  force: boolean;
  status: JobStatus;
  attempts: number;
  maxAttempts: number;
  nextRunAt: Date;
  error: string | null;
  createdAt: Date;
  updatedAt: Date;
  outcome: Outcome | null;
}

const COLUMNS = `v.id, v."activityId", v."athleteId", v.reason, v.force, v.status, v.attempts, v."maxAttempts", v."nextRunAt", v.error,
  v."createdAt", v."updatedAt", r.outcome`;

export interface JobFilter {
  status?: JobStatus | undefined;
  athleteId?: Int64 | undefined;
  activityId?: Int64 | undefined;
  reason?: Reason | undefined;
}

/**
 * Jobs, newest first.
 * @param beforeId the id of the last job of the page before
 */
export async function listFetchJobs(
  database: Queryable,
  filter: JobFilter,
  limit: number,
  beforeId?: Int64,
): Promise<FetchJob[]> {
  const values: unknown[] = [limit];
  const conditions: string[] = [];
  const add = (column: string, operator: string, value: unknown) => {
    if (value === undefined) return;
    values.push(value);
    conditions.push(`v.${column} ${operator} $${values.length}`);
  };
  // The status is written out: each one is a branch of the view with an index of its own.
  if (filter.status !== undefined) conditions.push(`v.status = '${filter.status}'`);
  add('"athleteId"', '=', filter.athleteId);
  add('"activityId"', '=', filter.activityId);
  add('reason', '=', filter.reason);
  add('id', '<', beforeId);
  const where = conditions.length > 0 ? `WHERE ${conditions.join(' AND ')}` : '';
  return database.query<FetchJob>(
    `SELECT ${COLUMNS} FROM "ActivityFetchJob" v JOIN activity_fetch_job r ON r.id = v.id ${where} ORDER BY v.id DESC LIMIT $1`,
    values,
  );
}

export async function findFetchJob(database: Queryable, id: Int64): Promise<FetchJob | undefined> {
  const rows = await database.query<FetchJob>(
    `SELECT ${COLUMNS} FROM "ActivityFetchJob" v JOIN activity_fetch_job r ON r.id = v.id WHERE v.id = $1`,
    [id],
  );
  return rows[0];
}

/** How many jobs stand in each status. */
export type JobCounts = Record<JobStatus, number>;

export async function countFetchJobs(database: Queryable): Promise<JobCounts> {
  const [row] = await database.query<JobCounts>(
    `SELECT open.n - running.n AS pending, running.n AS working, done.n AS done, failed.n AS failed
     FROM (SELECT count(*)::int AS n FROM activity_fetch_job WHERE outcome IS NULL) open,
       (SELECT count(*)::int AS n FROM fetch_queue() f WHERE f.running) running,
       (SELECT count(*)::int AS n FROM activity_fetch_job WHERE outcome IN ('stored', 'skipped', 'deleted')) done,
       (SELECT count(*)::int AS n FROM activity_fetch_job
        WHERE outcome IS NOT NULL AND outcome NOT IN ('stored', 'skipped', 'deleted')) failed`,
    [],
  );
  return row ?? { pending: 0, working: 0, done: 0, failed: 0 };
}

/** Jobs that ended because the athlete's access did not suffice: worth another try once it does. */
export async function findJobsRefusedForAthlete(tx: Queryable, athleteId: Int64): Promise<Int64[]> {
  const rows = await tx.query<{ id: string }>(
    `SELECT id FROM activity_fetch_job WHERE athlete_id = $1 AND outcome IN ('unknownAthlete', 'unauthorized', 'forbidden')`,
    [athleteId],
  );
  return rows.map((row) => row.id);
}
