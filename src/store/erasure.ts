import type { Int64 } from '../domain/int64.ts';
import type { Queryable } from '../infra/database.ts';
import { forgetAthleteInAudit } from './audit.ts';

/**
 * Erases everything kept of an athlete: tokens, activities, thumbnails, requests, deliveries. Runs that
 * are under way lose their claim, and with it their result.
 * @returns the pg-boss jobs and the activities whose thumbnail jobs are to be deleted in the same transaction
 */
export async function eraseAthleteRows(
  tx: Queryable,
  athleteId: Int64,
): Promise<{ known: boolean; fetchJobs: string[]; activities: Int64[] }> {
  // The schedule's row first, as every other writer: a claim of this athlete waits or has committed.
  await tx.query('SELECT FROM athlete_schedule WHERE athlete_id = $1 FOR UPDATE', [athleteId]);
  const jobs = await tx.query<{ boss_job_id: string }>(
    'DELETE FROM activity_fetch_job WHERE athlete_id = $1 RETURNING boss_job_id',
    [athleteId],
  );
  const activities = await tx.query<{ activity_id: string }>(
    'DELETE FROM activity WHERE athlete_id = $1 RETURNING activity_id',
    [athleteId],
  );
  await tx.query('DELETE FROM activity_tombstone WHERE athlete_id = $1', [athleteId]);
  await tx.query('DELETE FROM webhook_event WHERE owner_id = $1', [athleteId]);
  await forgetAthleteInAudit(tx, athleteId);
  const athletes = await tx.query('DELETE FROM athlete WHERE athlete_id = $1 RETURNING athlete_id', [athleteId]);
  await tx.query('DELETE FROM athlete_schedule WHERE athlete_id = $1', [athleteId]);
  return {
    known: athletes.length + jobs.length + activities.length > 0,
    fetchJobs: jobs.map((row) => row.boss_job_id),
    activities: activities.map((row) => row.activity_id),
  };
}
