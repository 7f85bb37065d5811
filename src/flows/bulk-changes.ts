import type { PgBoss } from 'pg-boss';
import type { Int64 } from '../domain/int64.ts';
import type { JobStatus } from '../domain/job.ts';
import type { Database } from '../infra/database.ts';
import type { Logger } from '../infra/logger.ts';
import { addBulkChange, endBulkChange, type JobAction, stepBulkChange } from '../store/bulk-changes.ts';
import { findFetchJobOfActivity } from '../store/fetch-jobs.ts';
import type { Requester } from '../store/fetch-requests.ts';
import { countJobs } from '../store/job-counts.ts';
import type { JobFilter } from '../store/job-pages.ts';
import { countActivitiesToReplay, type EventFilter } from '../store/webhook-events.ts';
import { deleteJobs } from './delete-jobs.ts';
import { forceJobs } from './force-jobs.ts';
import { replayEvents } from './replay-event.ts';
import { retryJobs } from './retry-jobs.ts';

export interface BulkDependencies {
  database: Database;
  boss: PgBoss;
  logger: Logger;
  /** Aborted when the service stops: a change ends between two batches, as interrupted. */
  stopping: AbortSignal;
}

/** What is changed: jobs, or the activities of deliveries. */
type Change = { by: Requester } & (
  | { action: JobAction; filter: JobFilter & { status: JobStatus } }
  | { action: 'replay'; filter: EventFilter }
);

/** Starts to change all that match, in the background. @returns its id, its size and whose they are, if one athlete's */
export async function startBulkChange(
  deps: BulkDependencies,
  change: Change,
): Promise<{ id: Int64; total: number; athleteId: Int64 | undefined }> {
  const { database } = deps;
  const { action, filter, by } = change;
  const job = filter.activityId === undefined ? undefined : await findFetchJobOfActivity(database, filter.activityId);
  const athleteId = filter.athleteId ?? job?.athleteId;
  const total =
    change.action === 'replay'
      ? await countActivitiesToReplay(database, change.filter)
      : await countJobs(database, change.filter);
  const id = await database.transaction((tx) =>
    addBulkChange(tx, { action, filter: { ...filter }, by, total, athleteId }),
  );
  void runToEnd(deps, id, change);
  return { id, total, athleteId };
}

async function runToEnd(deps: BulkDependencies, id: Int64, change: Change): Promise<void> {
  const { database, logger, stopping } = deps;
  const cancelled = new AbortController();
  const run = {
    signal: AbortSignal.any([stopping, cancelled.signal]),
    by: change.by,
    onProgress: async (changed: number) => {
      if (!(await stepBulkChange(database, id, changed))) cancelled.abort();
    },
  };
  const fields = { component: 'admin', bulkChange: id, action: change.action };
  try {
    const changed = await changeAll(deps, change, run);
    const state = cancelled.signal.aborted ? 'cancelled' : stopping.aborted ? 'interrupted' : 'finished';
    await endBulkChange(database, id, { state });
    logger.info(`bulk change ${state}`, { ...fields, changed });
  } catch (error) {
    const { message } = error as Error;
    logger.warn('bulk change failed', { ...fields, error: message });
    // Where the database cannot be reached it counts as interrupted in a minute.
    await endBulkChange(database, id, { state: 'failed', error: message }).catch(() =>
      logger.warn('end of bulk change not written', fields),
    );
  }
}

function changeAll(
  deps: BulkDependencies,
  change: Change,
  run: { signal: AbortSignal; by: Requester; onProgress: (changed: number) => Promise<void> },
): Promise<number> {
  if (change.action === 'replay') return replayEvents(deps, change.filter, run);
  const { action, filter } = change;
  if (action === 'delete') return deleteJobs(deps, filter, run);
  if (action === 'force') return forceJobs(deps, filter, run);
  return retryJobs(deps, { ...filter, status: filter.status === 'done' ? 'done' : 'failed' }, run);
}
