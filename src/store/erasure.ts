import type { Int64 } from '../domain/int64.ts';
import type { Queryable } from '../infra/database.ts';
import { lockAthlete } from './athletes.ts';
import { forgetAthleteInAudit } from './audit.ts';
import { recordChanges } from './changes.ts';
import { forgetAthleteInSyncs } from './syncs.ts';

/**
 * Blocks claims, requests and other erasures of an athlete until the transaction ends. The schedule's row is the
 * first one for every writer; it is created if missing, so that the athlete's first request waits too.
 */
export async function lockForErasure(tx: Queryable, athleteId: Int64): Promise<void> {
  await tx.query(
    `INSERT INTO athlete_schedule (athlete_id) VALUES ($1)
     ON CONFLICT (athlete_id) DO UPDATE SET athlete_id = excluded.athlete_id`,
    [athleteId],
  );
  // An athlete who is just reconnecting goes first, or waits and connects as a new athlete.
  await lockAthlete(tx, athleteId);
}

/**
 * Erases everything stored about a locked athlete: tokens, activities, thumbnails, requests, deliveries. Current runs
 * lose their claim, and with it their result.
 * @returns how many activities there were; the pg-boss jobs, and the activities (stored or gone) whose thumbnail
 * jobs are to be deleted in the same transaction
 */
export async function eraseAthleteRows(
  tx: Queryable,
  athleteId: Int64,
): Promise<{ known: boolean; activities: number; fetchJobs: string[]; pictured: Int64[]; deliveryJobs: string[] }> {
  const jobs = await tx.query<{ boss_job_id: string; activity_id: string }>(
    'DELETE FROM activity_fetch_job WHERE athlete_id = $1 RETURNING boss_job_id, activity_id',
    [athleteId],
  );
  const activities = await tx.query<{ activity_id: string }>(
    'DELETE FROM activity WHERE athlete_id = $1 RETURNING activity_id',
    [athleteId],
  );
  const tombstones = await tx.query<{ activity_id: string }>(
    'DELETE FROM activity_tombstone WHERE athlete_id = $1 RETURNING activity_id',
    [athleteId],
  );
  await tx.query('DELETE FROM webhook_event WHERE owner_id = $1', [athleteId]);
  await tx.query('DELETE FROM bulk_change WHERE athlete_id = $1', [athleteId]);
  await forgetAthleteInAudit(tx, athleteId);
  // One change is left: athlete.disconnected. None of the others is sent any more.
  await tx.query(`DELETE FROM change WHERE athlete_id = $1 AND type <> 'athlete.disconnected'`, [athleteId]);
  const deliveries = await tx.query<{ job_id: string | null }>(
    `DELETE FROM delivery WHERE athlete_id = $1 AND type <> 'athlete.disconnected' RETURNING job_id`,
    [athleteId],
  );
  const connected = await tx.query('SELECT FROM athlete WHERE athlete_id = $1', [athleteId]);
  if (connected.length + activities.length > 0) await recordChanges(tx, [{ type: 'athlete.disconnected', athleteId }]);
  // Deletes the athlete's syncs and visits too.
  const athletes = await tx.query('DELETE FROM athlete WHERE athlete_id = $1 RETURNING athlete_id', [athleteId]);
  await forgetAthleteInSyncs(tx, athleteId);
  await tx.query('DELETE FROM athlete_schedule WHERE athlete_id = $1', [athleteId]);
  return {
    known: athletes.length + jobs.length + activities.length > 0,
    fetchJobs: jobs.map((row) => row.boss_job_id),
    activities: activities.length,
    deliveryJobs: deliveries.flatMap(({ job_id }) => job_id ?? []),
    pictured: [...new Set([...jobs, ...activities, ...tombstones].map((row) => row.activity_id))],
  };
}
