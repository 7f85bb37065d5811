import type { Int64 } from '../domain/int64.ts';
import { DONE_OUTCOMES } from '../domain/job.ts';
import type { Queryable } from '../infra/database.ts';
import { type WalkClaim, walkLost } from './list-walks.ts';

/** Which of these activities the sync has requested already. */
export async function findSyncItems(tx: Queryable, syncId: Int64, activityIds: readonly Int64[]): Promise<Set<Int64>> {
  const rows = await tx.query<{ activity_id: string }>(
    'SELECT activity_id FROM sync_item WHERE sync_id = $1 AND activity_id = ANY ($2::bigint[])',
    [syncId, activityIds],
  );
  return new Set(rows.map((row) => row.activity_id));
}

/** Which of these activities have an open job that only syncs requested. The athlete's schedule is locked. */
export async function findJobsOfSyncs(tx: Queryable, activityIds: readonly Int64[]): Promise<Set<Int64>> {
  const rows = await tx.query<{ activity_id: string }>(
    `SELECT DISTINCT i.activity_id FROM sync_item i JOIN activity_fetch_job j ON j.activity_id = i.activity_id
     WHERE i.activity_id = ANY ($1::bigint[]) AND NOT i.settled AND NOT i.joined AND i.version = j.version AND j.outcome IS NULL`,
    [activityIds],
  );
  return new Set(rows.map((row) => row.activity_id));
}

/** A fetch that a sync has just requested. */
export interface NewSyncItem {
  activityId: Int64;
  /** Who had requested it before: only this sync, other syncs as well, or also another requester. */
  sharedWith: 'nobody' | 'syncs' | 'others';
}

/** Notes fetches that the sync requested in this transaction. */
export async function addSyncItems(tx: Queryable, syncId: Int64, items: readonly NewSyncItem[]): Promise<void> {
  if (items.length === 0) return;
  await tx.query(
    `INSERT INTO sync_item (sync_id, activity_id, athlete_id, joined, version)
     SELECT $1, j.activity_id, j.athlete_id, n.joined, j.version
     FROM unnest($2::bigint[], $3::boolean[]) AS n (activity_id, joined) JOIN activity_fetch_job j ON j.activity_id = n.activity_id`,
    [syncId, items.map(({ activityId }) => activityId), items.map(({ sharedWith }) => sharedWith === 'others')],
  );
  // Another sync does not count as another requester: what it requested stays its own.
  const shared = items.filter(({ sharedWith }) => sharedWith === 'syncs').map(({ activityId }) => activityId);
  await tx.query(
    `UPDATE sync_item i SET version = j.version FROM activity_fetch_job j
     WHERE j.activity_id = i.activity_id AND i.activity_id = ANY ($1::bigint[]) AND NOT i.settled AND NOT i.joined AND i.version <> j.version`,
    [shared],
  );
}

/**
 * An operator requested a job that syncs may have requested: none of them removes it when it is cancelled.
 * For requests that do not change the request's version.
 */
export async function keepFromSyncs(tx: Queryable, jobId: Int64): Promise<void> {
  await tx.query(
    `UPDATE sync_item i SET joined = true FROM activity_fetch_job j
     WHERE j.id = $1 AND i.activity_id = j.activity_id AND NOT i.joined`,
    [jobId],
  );
}

const COUNT_EVERY_MS = 1000;
// Counting may take a twentieth of the time, however large the sync.
const SHARE = 20;

/**
 * Counts what has been fetched of what a sync queued, and ends the sync when all lists are read and
 * nothing is open.
 * @returns how the sync ended; undefined while it is running
 * @throws WalkLostError
 */
export async function countSync(tx: Queryable, claim: WalkClaim): Promise<'finished' | 'failed' | undefined> {
  const startedAt = performance.now();
  const [settled] = await tx.query<{ fetched: number; failed: number }>(SETTLE_ITEMS, [claim.walkId]);
  const [open] = await tx.query<{ items: number; busiest: number }>(COUNT_OPEN, [claim.walkId]);
  const [sync] = await tx.query<{ state: 'running' | 'finished' | 'failed' }>(WRITE_COUNT, [
    claim.walkId,
    claim.claimToken,
    settled?.fetched ?? 0,
    settled?.failed ?? 0,
    open?.items ?? 0,
    open?.busiest ?? 0,
    Math.max(COUNT_EVERY_MS, SHARE * (performance.now() - startedAt)),
  ]);
  if (!sync) throw walkLost(claim);
  return sync.state === 'running' ? undefined : sync.state;
}

const DONE = DONE_OUTCOMES.map((outcome) => `'${outcome}'`).join(', ');
// An item that an erasure has locked is counted the next time.
const SETTLE_ITEMS = `
  WITH ended AS (
    SELECT i.activity_id, j.outcome IN (${DONE}) AS done
    FROM sync_item i JOIN activity_fetch_job j ON j.activity_id = i.activity_id
    WHERE i.sync_id = $1 AND NOT i.settled AND j.outcome IS NOT NULL
    FOR UPDATE OF i SKIP LOCKED
  ), settled AS (
    UPDATE sync_item i SET settled = true FROM ended WHERE i.sync_id = $1 AND i.activity_id = ended.activity_id
    RETURNING ended.done
  )
  SELECT count(*) FILTER (WHERE done)::int AS fetched, count(*) FILTER (WHERE NOT done)::int AS failed FROM settled`;

const COUNT_OPEN = `
  SELECT coalesce(sum(n), 0)::int AS items, coalesce(max(n), 0)::int AS busiest
  FROM (SELECT count(*) AS n FROM sync_item WHERE sync_id = $1 AND NOT settled GROUP BY athlete_id) a`;

const WRITE_COUNT = `
  UPDATE list_walk s SET claim_token = NULL, lease_until = '-infinity', fetched = s.fetched + $3, fetches_failed = s.fetches_failed + $4,
    open_items = $5, busiest_athlete = $6, state = e.state,
    check_due_at = CASE WHEN e.state = 'running' THEN sync_now() + $7 * interval '1 ms' END,
    finished_at = CASE WHEN e.state <> 'running' THEN sync_now() END
  FROM (
    SELECT CASE WHEN $5 > 0 OR EXISTS (SELECT FROM list_visit v WHERE v.walk_id = $1) THEN 'running'
      WHEN m.athletes_failed > 0 AND m.athletes_listed = 0 THEN 'failed' ELSE 'finished' END AS state
    FROM list_walk m WHERE m.id = $1
  ) e
  WHERE s.id = $1 AND s.claim_token = $2 AND s.state = 'running' RETURNING s.state, pg_notify('activity_sync', 'sync:' || s.id)`;

const REMOVED_AT_ONCE = 500;

/**
 * Removes a batch of a cancelled sync's requests that no worker has started and no other requester
 * needs.
 * @returns pg-boss's jobs, to be deleted in the same transaction; none: there is nothing left to remove
 */
export async function removeCancelledRequests(tx: Queryable, syncId: Int64): Promise<string[]> {
  const candidates = await tx.query<{ activity_id: string; athlete_id: string }>(
    `SELECT i.activity_id, i.athlete_id ${REMOVABLE} AND i.sync_id = $1 ORDER BY i.athlete_id LIMIT ${REMOVED_AT_ONCE}`,
    [syncId],
  );
  if (candidates.length === 0) return [];
  // From here on no claim can take one of these jobs.
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
  FROM sync_item i
  JOIN activity_fetch_job j ON j.activity_id = i.activity_id
  JOIN fetch_queue() f ON f.boss_job_id = j.boss_job_id
  WHERE NOT i.settled AND NOT i.joined AND j.outcome IS NULL AND j.reason = 'manual' AND f.waiting
    AND i.version = j.version
    AND NOT EXISTS (
      SELECT FROM sync_item o JOIN list_walk s ON s.id = o.sync_id
      WHERE o.activity_id = i.activity_id AND o.sync_id <> i.sync_id AND NOT o.settled AND s.state = 'running')`;

/** A cancelled sync has nothing left to do. */
export async function endClearing(database: Queryable, claim: WalkClaim): Promise<void> {
  await database.query(
    `UPDATE list_walk SET claim_token = NULL, lease_until = '-infinity', check_due_at = NULL, open_items = 0 WHERE id = $1 AND claim_token = $2`,
    [claim.walkId, claim.claimToken],
  );
}

/** Deletes the items of a sync that has ended. Locked ones are deleted with the sync itself. */
export async function forgetSyncItems(database: Queryable, syncId: Int64): Promise<void> {
  await database.query(
    `DELETE FROM sync_item WHERE sync_id = $1 AND activity_id IN
       (SELECT activity_id FROM sync_item WHERE sync_id = $1 FOR UPDATE SKIP LOCKED)`,
    [syncId],
  );
}
