import type { PgBoss } from 'pg-boss';
import type { Int64 } from '../domain/int64.ts';
import type { Database, Queryable } from '../infra/database.ts';
import { requestFetches } from '../queue/requests.ts';
import { readFetchJobs } from '../store/fetch-jobs.ts';
import type { JobFilter } from '../store/job-pages.ts';
import { changeJobsInBatches } from './job-batches.ts';

/**
 * Force re-fetches the activities of all jobs that match. Jobs that deleted their activity are skipped: there is
 * nothing to fetch.
 * @param signal stops between two batches
 * @returns how many
 */
export async function forceJobs(
  deps: { database: Database; boss: PgBoss },
  filter: JobFilter,
  signal: AbortSignal,
): Promise<number> {
  return changeJobsInBatches(deps.database, filter, (tx, ids) => forceBatch(deps.boss, tx, ids), { signal });
}

async function forceBatch(boss: PgBoss, tx: Queryable, ids: readonly Int64[]): Promise<number> {
  const jobs = (await readFetchJobs(tx, ids)).filter(({ outcome }) => outcome !== 'deleted');
  const results = await requestFetches(
    boss,
    tx,
    jobs.map(({ activityId, athleteId }) => ({ activityId, athleteId, reason: 'manual', force: true })),
  );
  return results.length;
}
