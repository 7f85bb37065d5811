import type { PgBoss } from 'pg-boss';
import type { Int64 } from '../domain/int64.ts';
import type { Database, Queryable } from '../infra/database.ts';
import { requestFetches } from '../queue/requests.ts';
import { readFetchJobs } from '../store/fetch-jobs.ts';
import { type Requester, recordRequests } from '../store/fetch-requests.ts';
import type { JobFilter } from '../store/job-pages.ts';
import { type BatchRun, changeJobsInBatches } from './job-batches.ts';

/**
 * Force re-fetches the activities of all jobs that match. Jobs that deleted their activity are skipped: there is
 * nothing to fetch.
 * @param run.signal stops between two batches
 * @returns how many
 */
export async function forceJobs(
  deps: { database: Database; boss: PgBoss },
  filter: JobFilter,
  run: BatchRun & { by?: Requester },
): Promise<number> {
  return changeJobsInBatches(deps.database, filter, (tx, ids) => forceBatch(deps.boss, tx, ids, run.by), run);
}

async function forceBatch(
  boss: PgBoss,
  tx: Queryable,
  ids: readonly Int64[],
  by: Requester | undefined,
): Promise<number> {
  const jobs = (await readFetchJobs(tx, ids)).filter(({ outcome }) => outcome !== 'deleted');
  const results = await requestFetches(
    boss,
    tx,
    jobs.map(({ activityId, athleteId }) => ({ activityId, athleteId, reason: 'manual', force: true })),
  );
  await recordRequests(
    tx,
    results.map(({ jobId }) => jobId),
    { kind: 'request', by },
  );
  return results.length;
}
