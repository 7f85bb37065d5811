import type { Int64 } from '../domain/int64.ts';
import type { Queryable } from '../infra/database.ts';
import { type JobFilter, kindOfError, listJobIds } from './job-pages.ts';

/** Jobs that failed alike. */
export interface ErrorGroup {
  /** Their last error without the call, and with … for each long number: a filter by it finds these jobs. */
  error: string;
  jobs: number;
  newestAt: Date;
  newestJobId: Int64;
}

const MOST_JOBS = 10_000;
const MOST_GROUPS = 50;
const CALL = String.raw`^[A-Z]+ /\S*: `;

/** The newest failed jobs that match, grouped by their error, the largest group first. @returns how many were read, too */
export async function groupFailures(
  database: Queryable,
  filter: Omit<JobFilter, 'status'>,
): Promise<{ groups: ErrorGroup[]; jobs: number; isWhole: boolean }> {
  const ids = await listJobIds(database, { ...filter, status: 'failed' }, undefined, MOST_JOBS + 1);
  const groups = await database.query<ErrorGroup>(
    `SELECT error, count(*)::int AS jobs, max(at) AS "newestAt", max(id) AS "newestJobId" FROM (
       SELECT r.id, greatest(r.requested_at, f.changed_on) AS at, ${kindOfError(`regexp_replace(coalesce(f.error, ''), '${CALL}', '')`)} AS error
       FROM activity_fetch_job r JOIN fetch_queue() f ON f.boss_job_id = r.boss_job_id WHERE r.id = ANY ($1::bigint[])
     ) failed GROUP BY error ORDER BY jobs DESC, max(id) DESC LIMIT ${MOST_GROUPS}`,
    [ids.slice(0, MOST_JOBS)],
  );
  return { groups, jobs: Math.min(ids.length, MOST_JOBS), isWhole: ids.length <= MOST_JOBS };
}
