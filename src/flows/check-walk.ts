import type { PgBoss } from 'pg-boss';
import { FETCH_QUEUE } from '../infra/boss.ts';
import type { Database } from '../infra/database.ts';
import { type CheckStep, releaseWalk } from '../store/list-walks.ts';
import { beginSweep, endSweep, type SweepSummary } from '../store/polling-sweeps.ts';
import { countSync, endClearing, forgetSyncItems, removeCancelledRequests } from '../store/sync-items.ts';

/** How a walk ended, if this check has ended it. */
export type WalkEnd = { sweep: SweepSummary } | { sync: 'finished' | 'failed' } | undefined;

/**
 * What a walk needs beside its pages: begins or ends a sweep, counts what a sync has fetched, or removes what a
 * cancelled one queued.
 * @throws WalkLostError
 */
export async function checkWalk(database: Database, boss: PgBoss, step: CheckStep): Promise<WalkEnd> {
  if (step.state === 'cancelled') {
    await clearCancelled(database, boss, step);
    return undefined;
  }
  if (step.kind === 'polling') {
    if (step.state === 'running') return { sweep: await database.transaction((tx) => endSweep(tx, step)) };
    await database.transaction((tx) => beginSweep(tx, step));
    return undefined;
  }
  const end = await database.transaction((tx) => countSync(tx, step));
  if (!end) return undefined;
  await forgetSyncItems(database, step.walkId);
  return { sync: end };
}

/** Removes, in batches, the jobs of a cancelled sync that no worker has started. */
async function clearCancelled(database: Database, boss: PgBoss, step: CheckStep): Promise<void> {
  const removed = await database.transaction(async (tx) => {
    const bossJobIds = await removeCancelledRequests(tx, step.walkId);
    if (bossJobIds.length > 0) await boss.deleteJob(FETCH_QUEUE, bossJobIds, { db: tx });
    return bossJobIds.length;
  });
  if (removed > 0) return releaseWalk(database, step);
  await endClearing(database, step);
  await forgetSyncItems(database, step.walkId);
}
