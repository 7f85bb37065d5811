import type { Int64 } from '../domain/int64.ts';
import type { Database, Queryable } from '../infra/database.ts';
import { type SyncClaim, SyncLostError } from './sync-steps.ts';
import { notifyOfSync } from './syncs.ts';

/** How a sync ended; undefined while it runs. */
export type SyncEnd = 'finished' | 'failed' | undefined;

/**
 * Counts what has been fetched of what a sync queued, and ends the sync when all lists are read and
 * nothing is open.
 * @throws SyncLostError when the claim ended meanwhile
 */
export async function countSync(tx: Queryable, claim: SyncClaim): Promise<SyncEnd> {
  const [settled] = await tx.query<{ fetched: number; failed: number }>(SETTLE_ITEMS, [claim.syncId]);
  const [open] = await tx.query<{ items: number; busiest: number }>(COUNT_OPEN, [claim.syncId]);
  const [sync] = await tx.query<{ state: 'running' | 'finished' | 'failed' }>(WRITE_COUNT, [
    claim.syncId,
    claim.holder,
    settled?.fetched ?? 0,
    settled?.failed ?? 0,
    open?.items ?? 0,
    open?.busiest ?? 0,
  ]);
  if (!sync) throw new SyncLostError(`Sync ${claim.syncId} was cancelled or taken over meanwhile.`);
  await notifyOfSync(tx, claim.syncId);
  return sync.state === 'running' ? undefined : sync.state;
}

// An item that an erasure holds just now is counted the next time.
const SETTLE_ITEMS = `
  WITH ended AS (
    SELECT i.activity_id, j.outcome IN ('stored', 'skipped', 'deleted') AS done
    FROM manual_sync_item i JOIN activity_fetch_job j ON j.activity_id = i.activity_id
    WHERE i.sync_id = $1 AND NOT i.settled AND j.outcome IS NOT NULL
    FOR UPDATE OF i SKIP LOCKED
  ), settled AS (
    UPDATE manual_sync_item i SET settled = true FROM ended WHERE i.sync_id = $1 AND i.activity_id = ended.activity_id
    RETURNING ended.done
  )
  SELECT count(*) FILTER (WHERE done)::int AS fetched, count(*) FILTER (WHERE NOT done)::int AS failed FROM settled`;

const COUNT_OPEN = `
  SELECT coalesce(sum(n), 0)::int AS items, coalesce(max(n), 0)::int AS busiest
  FROM (SELECT count(*) AS n FROM manual_sync_item WHERE sync_id = $1 AND NOT settled GROUP BY athlete_id) a`;

const WRITE_COUNT = `
  UPDATE manual_sync s SET holder = NULL, lease_until = '-infinity', fetched = s.fetched + $3, fetches_failed = s.fetches_failed + $4,
    open_items = $5, busiest_athlete = $6, state = e.state,
    list_due_at = CASE WHEN e.state = 'running' THEN s.list_due_at END,
    count_due_at = CASE WHEN e.state = 'running' THEN s.count_due_at END,
    finished_at = CASE WHEN e.state <> 'running' THEN sync_now() END
  FROM (
    SELECT CASE WHEN $5 > 0 OR EXISTS (SELECT FROM manual_sync_walk w WHERE w.sync_id = $1) THEN 'running'
      WHEN m.athletes_failed > 0 AND m.athletes_listed = 0 THEN 'failed' ELSE 'finished' END AS state
    FROM manual_sync m WHERE m.id = $1
  ) e
  WHERE s.id = $1 AND s.holder = $2 AND s.state = 'running' RETURNING s.state`;

/** The next count is due after a wait. */
export async function scheduleCount(database: Queryable, syncId: Int64, delayMs: number): Promise<void> {
  await database.query(
    `UPDATE manual_sync SET count_due_at = sync_now() + $2 * interval '1 ms' WHERE id = $1 AND count_due_at IS NOT NULL`,
    [syncId, delayMs],
  );
}

const REMOVED_AT_ONCE = 500;

/**
 * Removes some of the requests that a cancelled sync made and nobody has begun, unless somebody else wants
 * them too.
 * @returns pg-boss's jobs, to be deleted in the same transaction; none: there is nothing left to remove
 */
export async function removeCancelledRequests(tx: Queryable, syncId: Int64): Promise<string[]> {
  const candidates = await tx.query<{ activity_id: string; athlete_id: string }>(
    `SELECT i.activity_id, i.athlete_id ${REMOVABLE} AND i.sync_id = $1 ORDER BY i.athlete_id LIMIT ${REMOVED_AT_ONCE}`,
    [syncId],
  );
  if (candidates.length === 0) return [];
  // No claim begins one of these jobs from here on.
  await tx.query('SELECT FROM athlete_schedule WHERE athlete_id = ANY ($1::bigint[]) ORDER BY athlete_id FOR UPDATE', [
    [...new Set(candidates.map((row) => row.athlete_id))],
  ]);
  const removed = await tx.query<{ boss_job_id: string }>(
    `DELETE FROM activity_fetch_job WHERE activity_id IN
       (SELECT i.activity_id ${REMOVABLE} AND i.sync_id = $1 AND i.activity_id = ANY ($2::bigint[]))
     RETURNING boss_job_id`,
    [syncId, candidates.map((row) => row.activity_id)],
  );
  return removed.map((row) => row.boss_job_id);
}

const REMOVABLE = `
  FROM manual_sync_item i
  JOIN activity_fetch_job j ON j.activity_id = i.activity_id
  JOIN fetch_queue() f ON f.boss_job_id = j.boss_job_id
  WHERE NOT i.settled AND NOT i.joined AND j.outcome IS NULL AND j.reason = 'manual' AND f.waiting
    AND i.version = j.version
    AND NOT EXISTS (
      SELECT FROM manual_sync_item o JOIN manual_sync s ON s.id = o.sync_id
      WHERE o.activity_id = i.activity_id AND o.sync_id <> i.sync_id AND NOT o.settled AND s.state = 'running')`;

/** A cancelled sync has nothing left to do. */
export async function endClearing(database: Queryable, claim: SyncClaim): Promise<void> {
  await database.query(
    `UPDATE manual_sync SET holder = NULL, lease_until = '-infinity', count_due_at = NULL, open_items = 0 WHERE id = $1 AND holder = $2`,
    [claim.syncId, claim.holder],
  );
}

/** The items of a sync that has ended serve nobody any more. Ones held by others just now go with the sync itself. */
export async function forgetSyncItems(database: Database, syncId: Int64): Promise<void> {
  await database.query(
    `DELETE FROM manual_sync_item WHERE sync_id = $1 AND activity_id IN
       (SELECT activity_id FROM manual_sync_item WHERE sync_id = $1 FOR UPDATE SKIP LOCKED)`,
    [syncId],
  );
}
