import type { PgBoss } from 'pg-boss';
import { FETCH_QUEUE } from '../infra/boss.ts';
import type { Database } from '../infra/database.ts';
import {
  countSync,
  endClearing,
  forgetSyncItems,
  removeCancelledRequests,
  type SyncEnd,
  scheduleCount,
} from '../store/sync-counts.ts';
import { type CountStep, putOffSync } from '../store/sync-steps.ts';

const COUNT_EVERY_MS = 1000;
// Counting may take a twentieth of the time, however large the sync.
const SHARE = 20;

/** Counts what a sync has fetched, and ends it when it is through. */
export async function countFetched(database: Database, step: CountStep): Promise<SyncEnd> {
  const startedAt = performance.now();
  const end = await database.transaction((tx) => countSync(tx, step));
  if (end) await forgetSyncItems(database, step.syncId);
  else await scheduleCount(database, step.syncId, Math.max(COUNT_EVERY_MS, SHARE * (performance.now() - startedAt)));
  return end;
}

/** Removes what a cancelled sync queued and nobody has begun, some at a time. */
export async function clearCancelled(database: Database, boss: PgBoss, step: CountStep): Promise<void> {
  const removed = await database.transaction(async (tx) => {
    const bossJobIds = await removeCancelledRequests(tx, step.syncId);
    if (bossJobIds.length > 0) await boss.deleteJob(FETCH_QUEUE, bossJobIds, { db: tx });
    return bossJobIds.length;
  });
  if (removed > 0) return putOffSync(database, step);
  await endClearing(database, step);
  await forgetSyncItems(database, step.syncId);
}
