import { type JobStatus, type Outcome, REASONS, type Reason } from '../domain/job.ts';
import type { Queryable } from '../infra/database.ts';
import { type JobFilter, outcomesOf } from './job-pages.ts';

/** How many jobs have each status. */
export type JobCounts = Record<JobStatus, number>;

/** The same for each reason. */
export type JobCountsByReason = Record<Reason, JobCounts>;

/** Counts every job. The counts are maintained, so this reads a few rows whatever the number of jobs. */
export async function countJobsByReason(database: Queryable): Promise<JobCountsByReason> {
  const [kept, running] = await Promise.all([
    database.query<{ reason: Reason; outcome: Outcome | null; jobs: number }>(
      'SELECT reason, outcome, sum(jobs)::float8 AS jobs FROM job_count GROUP BY reason, outcome',
      [],
    ),
    database.query<{ reason: Reason; jobs: number }>(
      `SELECT r.reason, count(*)::int AS jobs FROM activity_fetch_job r
       WHERE r.outcome IS NULL AND r.activity_id = ANY (ARRAY(SELECT f.activity_id FROM fetch_queue() f WHERE f.running))
       GROUP BY r.reason`,
      [],
    ),
  ]);
  const kindOf = (outcome: Outcome | null): JobStatus =>
    outcome === null ? 'pending' : outcomesOf('done').includes(outcome) ? 'done' : 'failed';
  const counts = Object.fromEntries(
    REASONS.map((reason) => [reason, { pending: 0, working: 0, done: 0, failed: 0 }]),
  ) as JobCountsByReason;
  for (const { reason, outcome, jobs } of kept) counts[reason][kindOf(outcome)] += jobs;
  for (const { reason, jobs } of running) {
    counts[reason].working = jobs;
    counts[reason].pending = Math.max(0, counts[reason].pending - jobs);
  }
  return counts;
}

/** The sum over the reasons. */
export function sumCounts(counts: JobCountsByReason, reasons: readonly Reason[] = REASONS): JobCounts {
  const sum: JobCounts = { pending: 0, working: 0, done: 0, failed: 0 };
  for (const reason of reasons)
    for (const status of Object.keys(sum) as JobStatus[]) sum[status] += counts[reason][status];
  return sum;
}

/** How many jobs match a filter. */
export async function countJobs(database: Queryable, filter: JobFilter): Promise<number> {
  if (filter.athleteId === undefined && filter.activityId === undefined) {
    const counts = sumCounts(await countJobsByReason(database), filter.reason ? [filter.reason] : REASONS);
    return filter.status ? counts[filter.status] : counts.pending + counts.working + counts.done + counts.failed;
  }
  const running = 'r.activity_id = ANY (ARRAY(SELECT f.activity_id FROM fetch_queue() f WHERE f.running))';
  const outcomes = outcomesOf(filter.status);
  const [row] = await database.query<{ jobs: number }>(
    `SELECT count(*)::int AS jobs FROM activity_fetch_job r
     WHERE ($1::bigint IS NULL OR r.athlete_id = $1) AND ($2::bigint IS NULL OR r.activity_id = $2) AND ($3::text IS NULL OR r.reason = $3)
       AND (r.outcome = ANY ($4::fetch_outcome[]) OR r.outcome IS NULL AND $5)
       ${filter.status === 'working' ? `AND ${running}` : filter.status === 'pending' ? `AND NOT ${running}` : ''}`,
    [
      filter.athleteId ?? null,
      filter.activityId ?? null,
      filter.reason ?? null,
      outcomes.filter((outcome) => outcome !== null),
      outcomes.includes(null),
    ],
  );
  return row?.jobs ?? 0;
}

/** Folds the kept counts together; due every few seconds while jobs change. */
export async function compactJobCounts(database: Queryable): Promise<void> {
  await database.query('SELECT compact_job_counts()', []);
}
