import type { PgBoss } from 'pg-boss';
import type { Int64 } from '../domain/int64.ts';
import { FETCH_QUEUE } from '../infra/boss.ts';
import type { Database, Queryable } from '../infra/database.ts';
import { notify } from '../infra/notify.ts';
import { wakeLanes } from '../queue/lanes.ts';
import { reopenJobs } from '../queue/requests.ts';
import { type FetchJob, findFetchJob, findWaitingBossJob, lockFetchJobs } from '../store/fetch-jobs.ts';
import { type Requester, recordRequests } from '../store/fetch-requests.ts';
import type { JobFilter } from '../store/job-pages.ts';
import { keepFromSyncs } from '../store/sync-items.ts';
import { type BatchRun, changeJobsInBatches } from './job-batches.ts';

interface Dependencies {
  database: Database;
  boss: PgBoss;
}

/**
 * Retries one job: a finished one is re-opened, a pending one skips the rest of its backoff.
 * @returns the job afterwards; 'working' when it is already running; undefined when there is no such job
 */
export async function retryJob(
  deps: Dependencies,
  id: Int64,
  by?: Requester,
): Promise<FetchJob | 'working' | undefined> {
  return deps.database.transaction(async (tx) => {
    await lockFetchJobs(tx, [id]);
    const job = await findFetchJob(tx, id);
    if (!job) return undefined;
    if (job.status === 'working') return 'working';
    await keepFromSyncs(tx, id);
    if (job.status === 'pending') await endBackoff(deps.boss, tx, id);
    else await reopenJobs(deps.boss, tx, [id]);
    await recordRequests(tx, [id], { kind: 'retry', by });
    return findFetchJob(tx, id);
  });
}

/**
 * Retries all finished jobs that match, each at most once, even if it fails again in the meantime.
 * @param run.signal stops between two batches
 * @returns how many
 */
export async function retryJobs(
  deps: Dependencies,
  filter: JobFilter & { status: 'done' | 'failed' },
  run: BatchRun & { by?: Requester },
): Promise<number> {
  const retryBatch = async (tx: Queryable, ids: Int64[]) => {
    const retried = await reopenJobs(deps.boss, tx, ids);
    await recordRequests(tx, retried, { kind: 'retry', by: run.by });
    return retried.length;
  };
  return changeJobsInBatches(deps.database, filter, retryBatch, run);
}

async function endBackoff(boss: PgBoss, tx: Queryable, id: Int64): Promise<void> {
  const waiting = await findWaitingBossJob(tx, id);
  if (!waiting) return;
  await boss.update(FETCH_QUEUE, undefined, { id: waiting.bossJobId, startAfter: 0, db: tx });
  await wakeLanes(tx, [waiting]);
  await notify(tx, 'fetch');
}
