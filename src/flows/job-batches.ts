import type { Int64 } from '../domain/int64.ts';
import type { Database, Queryable } from '../infra/database.ts';
import { type JobFilter, listJobIds } from '../store/job-pages.ts';

const BATCH = 500;

export interface BatchRun {
  /** Stops between two batches; what was committed stays. */
  signal: AbortSignal;
  /** Called after each committed batch with the number of jobs changed so far; the next batch waits for it. */
  onProgress?: (changed: number) => Promise<void>;
}

/**
 * Changes all jobs that match the filter, newest first: each batch of 500 in its own transaction, each job at most once.
 * @param change changes one batch; returns how many jobs it changed
 * @returns how many jobs were changed
 */
export async function changeJobsInBatches(
  database: Database,
  filter: JobFilter,
  change: (tx: Queryable, ids: Int64[]) => Promise<number>,
  run: BatchRun,
): Promise<number> {
  let changed = 0;
  let last: Int64 | undefined;
  while (!run.signal.aborted) {
    const ids = await listJobIds(database, filter, last, BATCH);
    if (ids.length === 0) break;
    changed += await database.transaction((tx) => change(tx, ids));
    await run.onProgress?.(changed);
    last = ids.at(-1);
  }
  return changed;
}
