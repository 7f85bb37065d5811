import type { Int64 } from '../domain/int64.ts';
import type { Queryable } from '../infra/database.ts';

/** Which of these activities the sync has asked for already. */
export async function findSyncItems(tx: Queryable, syncId: Int64, activityIds: readonly Int64[]): Promise<Set<Int64>> {
  const rows = await tx.query<{ activity_id: string }>(
    'SELECT activity_id FROM manual_sync_item WHERE sync_id = $1 AND activity_id = ANY ($2::bigint[])',
    [syncId, activityIds],
  );
  return new Set(rows.map((row) => row.activity_id));
}

/** Which of these activities have an open job that only syncs asked for. The athlete's schedule is locked. */
export async function findJobsOfSyncs(tx: Queryable, activityIds: readonly Int64[]): Promise<Set<Int64>> {
  const rows = await tx.query<{ activity_id: string }>(
    `SELECT DISTINCT i.activity_id FROM manual_sync_item i JOIN activity_fetch_job j ON j.activity_id = i.activity_id
     WHERE i.activity_id = ANY ($1::bigint[]) AND NOT i.settled AND NOT i.joined AND i.version = j.version AND j.outcome IS NULL`,
    [activityIds],
  );
  return new Set(rows.map((row) => row.activity_id));
}

/** A fetch that a sync has just asked for. */
export interface NewSyncItem {
  activityId: Int64;
  /** Whose it was before: the sync's alone, other syncs' as well, or also somebody's who is no sync. */
  sharedWith: 'nobody' | 'syncs' | 'others';
}

/** Notes fetches that the sync asked for in this transaction. */
export async function addSyncItems(tx: Queryable, syncId: Int64, items: readonly NewSyncItem[]): Promise<void> {
  await tx.query(
    `INSERT INTO manual_sync_item (sync_id, activity_id, athlete_id, joined, version)
     SELECT $1, j.activity_id, j.athlete_id, n.joined, j.version
     FROM unnest($2::bigint[], $3::boolean[]) AS n (activity_id, joined) JOIN activity_fetch_job j ON j.activity_id = n.activity_id`,
    [syncId, items.map(({ activityId }) => activityId), items.map(({ sharedWith }) => sharedWith === 'others')],
  );
  // To the other syncs this one is nobody else: what they asked for stays theirs.
  const shared = items.filter(({ sharedWith }) => sharedWith === 'syncs').map(({ activityId }) => activityId);
  await tx.query(
    `UPDATE manual_sync_item i SET version = j.version FROM activity_fetch_job j
     WHERE j.activity_id = i.activity_id AND i.activity_id = ANY ($1::bigint[]) AND NOT i.settled AND NOT i.joined AND i.version <> j.version`,
    [shared],
  );
}

/**
 * Somebody asked by hand for a job that syncs may have asked for: none of them removes it when it is cancelled.
 * For those ways of asking that leave the request's version as it is.
 */
export async function keepFromSyncs(tx: Queryable, jobId: Int64): Promise<void> {
  await tx.query(
    `UPDATE manual_sync_item i SET joined = true FROM activity_fetch_job j
     WHERE j.id = $1 AND i.activity_id = j.activity_id AND NOT i.joined`,
    [jobId],
  );
}
