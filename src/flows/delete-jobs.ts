import type { PgBoss } from 'pg-boss';
import type { Int64 } from '../domain/int64.ts';
import type { JobStatus } from '../domain/job.ts';
import { FETCH_QUEUE } from '../infra/boss.ts';
import type { Database, Queryable } from '../infra/database.ts';
import { notify } from '../infra/notify.ts';
import { databaseTime } from '../store/database-time.ts';
import { deleteFetchJobRows, lockFetchJobs, readFetchJobs } from '../store/fetch-jobs.ts';
import { type JobFilter, listJobIds } from '../store/job-pages.ts';

interface Dependencies {
  database: Database;
  boss: PgBoss;
}

const BATCH = 500;

/**
 * Deletes all jobs that fit, in batches of their own transactions. The result of a run under way is then
 * not kept: it finds its job gone.
 * @param olderThanMs only jobs that were last updated longer ago
 * @param signal stops between two batches
 * @returns how many
 */
export async function deleteJobs(
  deps: Dependencies,
  filter: JobFilter & { status: JobStatus; olderThanMs?: number | undefined },
  signal: AbortSignal,
): Promise<number> {
  const now = await databaseTime(deps.database);
  const before = filter.olderThanMs === undefined ? undefined : new Date(now.getTime() - filter.olderThanMs);
  let deleted = 0;
  let last: Int64 | undefined;
  while (!signal.aborted) {
    const ids = await listJobIds(deps.database, { ...filter, requestedBefore: before }, last, BATCH);
    if (ids.length === 0) break;
    deleted += await deps.database.transaction((tx) => deleteBatch(deps.boss, tx, ids, filter.status, before));
    last = ids.at(-1);
  }
  return deleted;
}

/** Deletes one job, whatever its status. @returns false when there is no such job */
export async function deleteJob(deps: Dependencies, id: Int64): Promise<boolean> {
  return deps.database.transaction(async (tx) => {
    await lockFetchJobs(tx, [id]);
    return (await deleteLocked(deps.boss, tx, [id])) === 1;
  });
}

// Between the look and the lock a job may have moved on: only what still fits is deleted.
async function deleteBatch(
  boss: PgBoss,
  tx: Queryable,
  ids: Int64[],
  status: JobStatus,
  before: Date | undefined,
): Promise<number> {
  await lockFetchJobs(tx, ids);
  const jobs = await readFetchJobs(tx, ids);
  const fitting = jobs.filter((job) => job.status === status && (!before || job.updatedAt < before));
  return deleteLocked(
    boss,
    tx,
    fitting.map(({ id }) => id),
  );
}

async function deleteLocked(boss: PgBoss, tx: Queryable, ids: Int64[]): Promise<number> {
  const bossJobs = await deleteFetchJobRows(tx, ids);
  if (bossJobs.length > 0) {
    await boss.deleteJob(FETCH_QUEUE, bossJobs, { db: tx });
    await notify(tx, 'job');
  }
  return bossJobs.length;
}
