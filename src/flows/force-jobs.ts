import type { PgBoss } from 'pg-boss';
import type { Int64 } from '../domain/int64.ts';
import type { Database, Queryable } from '../infra/database.ts';
import { requestFetches } from '../queue/requests.ts';
import { readFetchJobs } from '../store/fetch-jobs.ts';
import { type JobFilter, listJobIds } from '../store/job-pages.ts';

const BATCH = 500;

/**
 * Asks by hand and by force for the activities of all jobs that fit, newest first, in batches of their own
 * transactions. Jobs that deleted their activity are left alone: there is nothing to fetch.
 * @param signal stops between two batches
 * @returns how many
 */
export async function forceJobs(
  deps: { database: Database; boss: PgBoss },
  filter: JobFilter,
  signal: AbortSignal,
): Promise<number> {
  let forced = 0;
  let last: Int64 | undefined;
  while (!signal.aborted) {
    const ids = await listJobIds(deps.database, filter, last, BATCH);
    if (ids.length === 0) break;
    forced += await deps.database.transaction((tx) => forceBatch(deps.boss, tx, ids));
    last = ids.at(-1);
  }
  return forced;
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
