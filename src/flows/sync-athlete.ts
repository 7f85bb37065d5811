import type { PgBoss } from 'pg-boss';
import { backoffMs } from '../domain/backoff.ts';
import type { Int64 } from '../domain/int64.ts';
import { MAX_ATTEMPTS } from '../domain/job.ts';
import type { Database, Queryable } from '../infra/database.ts';
import { PER_PAGE } from '../provider/client.ts';
import { requestFetches } from '../queue/requests.ts';
import { findListed, lockListedAthlete } from '../store/listed-activities.ts';
import { addSyncItems, findJobsOfSyncs, findSyncItems } from '../store/sync-items.ts';
import {
  endWalk,
  giveUpWalk,
  keepWalk,
  type PageStep,
  putOffSync,
  putOffWalk,
  SyncLostError,
  settleSyncPage,
} from '../store/sync-steps.ts';
import type { ListPage, PageAnswer } from './list-page.ts';

export interface SyncDependencies {
  database: Database;
  boss: PgBoss;
  listPage: ListPage;
  backoff: { baseMs: number; capMs: number };
  random: () => number;
}

/**
 * Reads one page of an athlete's list for a manual sync. The fetches are asked for in the transaction that
 * writes how far the walk came, so a process that dies at any point asks for none twice.
 * @throws SyncLostError when the sync was cancelled or taken over meanwhile, or the athlete was erased;
 * nothing was written
 */
export async function syncAthlete(deps: SyncDependencies, step: PageStep, signal: AbortSignal): Promise<void> {
  const request = { athleteId: step.athleteId, reason: 'manual' as const, cursor: step.cursor, perPage: PER_PAGE };
  const answer = await deps.listPage(request, signal);
  switch (answer.kind) {
    case 'wait':
      return putOffSync(deps.database, step, answer.until);
    case 'refused':
      return deps.database.transaction((tx) => giveUpWalk(tx, step, `Athlete ${step.athleteId}: ${answer.error}`));
    case 'failed':
      return syncLater(deps, step, answer.error);
    case 'page':
      return deps.database.transaction((tx) => takePage(deps, tx, step, answer));
  }
}

async function takePage(
  deps: SyncDependencies,
  tx: Queryable,
  step: PageStep,
  page: Extract<PageAnswer, { kind: 'page' }>,
): Promise<void> {
  const connectedAt = await lockListedAthlete(tx, step.athleteId);
  if (!connectedAt) throw new SyncLostError('The athlete was erased while their list was read.');
  const afterMs = step.afterS === null ? Number.NEGATIVE_INFINITY : step.afterS * 1000;
  const ids = page.activities.filter((one) => one.startDate.getTime() > afterMs).map((one) => one.activityId);
  const known = await findListed(tx, ids);
  const asked = await findSyncItems(tx, step.syncId, ids);
  const wanted = ids.filter((id) => {
    const { tombstoned, stored } = known.get(id) ?? {};
    return !tombstoned && !asked.has(id) && (step.force || !stored);
  });
  const ofSyncs = await findJobsOfSyncs(tx, wanted);
  await settleSyncPage(tx, step, { listed: ids.length, queued: wanted.length });
  const requests = wanted.map((activityId) => ({
    activityId,
    athleteId: step.athleteId,
    reason: 'manual' as const,
    force: step.force,
  }));
  // An open job is joined: the sync waits for it, and the provider is called no more than without the sync.
  await requestFetches(deps.boss, tx, requests);
  const sharedWith = (id: Int64) => (!known.get(id)?.job?.open ? 'nobody' : ofSyncs.has(id) ? 'syncs' : 'others');
  await addSyncItems(
    tx,
    step.syncId,
    wanted.map((activityId) => ({ activityId, sharedWith: sharedWith(activityId) })),
  );
  // A short page may have a successor; only an empty one ends the list.
  const over =
    (page.activities.length === 0 && !page.full) || (page.oldest !== undefined && page.oldest.getTime() <= afterMs);
  if (over) await endWalk(tx, step);
  else await keepWalk(tx, step, page.next);
}

/** Reads the page again after a wait; after some failures in a row the sync goes on without the athlete. */
export async function syncLater(deps: SyncDependencies, step: PageStep, error: string): Promise<void> {
  const message = `Athlete ${step.athleteId}: ${error}`;
  await deps.database.transaction((tx) =>
    step.failures >= MAX_ATTEMPTS
      ? giveUpWalk(tx, step, message)
      : putOffWalk(tx, step, message, backoffMs(step.failures, deps.backoff, deps.random())),
  );
}
