import type { Queryable } from '../infra/database.ts';

/** Rows with a retention, other than jobs. */
export const KEPT_FOR_A_TIME = [
  'ledger entries',
  'tombstones',
  'audit entries',
  'syncs',
  'schedules',
  'history',
] as const;
export type KeptForATime = (typeof KEPT_FOR_A_TIME)[number];

const DELETE_BATCH: Record<KeptForATime, string> = {
  'ledger entries': `DELETE FROM webhook_event WHERE id = ANY (ARRAY(
    SELECT id FROM webhook_event WHERE received_at < $1 AND last_received_at < $1 ORDER BY received_at LIMIT 1000)) RETURNING 1 AS one`,
  tombstones: `DELETE FROM activity_tombstone WHERE activity_id = ANY (ARRAY(
    SELECT activity_id FROM activity_tombstone WHERE deleted_at < $1 ORDER BY deleted_at LIMIT 1000)) RETURNING 1 AS one`,
  'audit entries': `DELETE FROM audit_entry WHERE id = ANY (ARRAY(
    SELECT id FROM audit_entry WHERE at < $1 ORDER BY at LIMIT 1000)) RETURNING 1 AS one`,
  syncs: `DELETE FROM list_walk WHERE id = ANY (ARRAY(
    SELECT id FROM list_walk WHERE kind = 'manual' AND finished_at < $1 AND check_due_at IS NULL ORDER BY finished_at LIMIT 1000)) RETURNING 1 AS one`,
  // Of athletes who are not connected and have no job left: an event may come after their erasure.
  schedules: `DELETE FROM athlete_schedule WHERE athlete_id = ANY (ARRAY(
    SELECT s.athlete_id FROM athlete_schedule s
    WHERE s.cooldown_until < $1 AND NOT EXISTS (SELECT FROM lane l WHERE l.athlete_id = s.athlete_id AND l.due_at IS NOT NULL)
      AND NOT EXISTS (SELECT FROM athlete a WHERE a.athlete_id = s.athlete_id)
      AND NOT EXISTS (SELECT FROM activity_fetch_job j WHERE j.athlete_id = s.athlete_id)
    LIMIT 1000 FOR UPDATE OF s SKIP LOCKED)) RETURNING 1 AS one`,
  history: `DELETE FROM history WHERE (minute, measure, bucket) IN (
    SELECT minute, measure, bucket FROM history WHERE minute < $1 ORDER BY minute LIMIT 1000) RETURNING 1 AS one`,
};

/** Deletes a batch of what is older than `before`. @returns how many rows; 0 when nothing is left */
export async function deleteOldRows(database: Queryable, what: KeptForATime, before: Date): Promise<number> {
  return (await database.query(DELETE_BATCH[what], [before])).length;
}
