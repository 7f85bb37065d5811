import type { PgBoss } from 'pg-boss';
import type { Int64 } from '../domain/int64.ts';
import type { JobStatus } from '../domain/job.ts';
import { FETCH_QUEUE } from '../infra/boss.ts';
import type { Database, Queryable } from '../infra/database.ts';
import { notify } from '../infra/notify.ts';
import { databaseTime } from '../store/database-time.ts';
import { deleteFetchJobRows, lockFetchJobs, readFetchJobs } from '../store/fetch-jobs.ts';
import { type JobFilter, keepMatching } from '../store/job-pages.ts';
import { type BatchRun, changeJobsInBatches } from './job-batches.ts';

interface Dependencies {
  database: Database;
  boss: PgBoss;
}

/**
 * Deletes all jobs that match. The result of a running one is then discarded: its job no longer exists.
 * @param filter.olderThanMs only jobs that were last updated longer ago
 * @param run.signal stops between two batches
 * @returns how many
 */
export async function deleteJobs(
  deps: Dependencies,
  filter: JobFilter & { status: JobStatus; olderThanMs?: number | undefined },
  run: BatchRun,
): Promise<number> {
  const now = await databaseTime(deps.database);
  const before = filter.olderThanMs === undefined ? undefined : new Date(now.getTime() - filter.olderThanMs);
  return changeJobsInBatches(
    deps.database,
    { ...filter, requestedBefore: before },
    (tx, ids) => deleteBatch(deps.boss, tx, ids, filter, before),
    run,
  );
}

/** Deletes one job, whatever its status. @returns false when there is no such job */
export async function deleteJob(deps: Dependencies, id: Int64): Promise<boolean> {
  return deps.database.transaction(async (tx) => {
    await lockFetchJobs(tx, [id]);
    return (await deleteLocked(deps.boss, tx, [id])) === 1;
  });
}

// A job may have changed before it was locked: only what still matches is deleted.
async function deleteBatch(
  boss: PgBoss,
  tx: Queryable,
  ids: Int64[],
  filter: JobFilter & { status: JobStatus },
  before: Date | undefined,
): Promise<number> {
  await lockFetchJobs(tx, ids);
  const jobs = await readFetchJobs(tx, await keepMatching(tx, ids, filter));
  const fitting = jobs.filter((job) => job.status === filter.status && (!before || job.updatedAt < before));
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
