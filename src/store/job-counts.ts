import { type JobStatus, type Outcome, REASONS, type Reason } from '../domain/job.ts';
import type { Queryable } from '../infra/database.ts';
import { conditionsOf, type JobFilter, outcomesOf } from './job-pages.ts';

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
  const { athleteId, activityId, since, until, error } = filter;
  if ([athleteId, activityId, since, until, error].every((value) => value === undefined)) {
    const counts = sumCounts(await countJobsByReason(database), filter.reason ? [filter.reason] : REASONS);
    return filter.status ? counts[filter.status] : counts.pending + counts.working + counts.done + counts.failed;
  }
  const running = 'r.activity_id = ANY (ARRAY(SELECT f.activity_id FROM fetch_queue() f WHERE f.running))';
  const outcomes = outcomesOf(filter.status);
  const { values, conditions } = conditionsOf(filter);
  const ended = values.push(outcomes.filter((outcome) => outcome !== null));
  const isOpen = values.push(outcomes.includes(null));
  conditions.push(`(r.outcome = ANY ($${ended}::fetch_outcome[]) OR r.outcome IS NULL AND $${isOpen})`);
  if (filter.status === 'working') conditions.push(running);
  if (filter.status === 'pending') conditions.push(`NOT ${running}`);
  const [row] = await database.query<{ jobs: number }>(
    `SELECT count(*)::int AS jobs FROM activity_fetch_job r WHERE ${conditions.join(' AND ')}`,
    values,
  );
  return row?.jobs ?? 0;
}

/** Folds the kept counts together; due every few seconds while jobs change. */
export async function compactJobCounts(database: Queryable): Promise<void> {
  await database.query('SELECT compact_job_counts()', []);
}
