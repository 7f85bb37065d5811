import type { Int64 } from '../domain/int64.ts';
import type { JobStatus, Outcome, Reason } from '../domain/job.ts';
import type { Queryable } from '../infra/database.ts';

/** An ActivityFetchJob as JSON shows it: exactly the documented fields, and the outcome. */
export interface FetchJob {
  id: Int64;
  activityId: Int64;
  athleteId: Int64;
  reason: Reason;
  force: boolean;
  status: JobStatus;
  attempts: number;
  maxAttempts: number;
  nextRunAt: Date;
  error: string | null;
  createdAt: Date;
  updatedAt: Date;
  outcome: Outcome | null;
}

const JOBS = `
  SELECT v.id, v."activityId", v."athleteId", v.reason, v.force, v.status, v.attempts, v."maxAttempts", v."nextRunAt", v.error,
    v."createdAt", v."updatedAt", r.outcome
  FROM "ActivityFetchJob" v JOIN activity_fetch_job r ON r.id = v.id`;

export async function findFetchJob(database: Queryable, id: Int64): Promise<FetchJob | undefined> {
  return (await database.query<FetchJob>(`${JOBS} WHERE v.id = $1`, [id]))[0];
}

export async function findFetchJobOfActivity(database: Queryable, activityId: Int64): Promise<FetchJob | undefined> {
  return (await database.query<FetchJob>(`${JOBS} WHERE v."activityId" = $1`, [activityId]))[0];
}

/** The jobs with these ids, newest first; those deleted in the meantime are left out. */
export async function readFetchJobs(database: Queryable, ids: readonly Int64[]): Promise<FetchJob[]> {
  if (ids.length === 0) return [];
  return database.query<FetchJob>(`${JOBS} WHERE v.id = ANY ($1::bigint[]) ORDER BY v.id DESC`, [ids]);
}

/** Jobs that ended because the athlete's access was insufficient: to be retried once it is sufficient. */
export async function findJobsRefusedForAthlete(tx: Queryable, athleteId: Int64): Promise<Int64[]> {
  const rows = await tx.query<{ id: string }>(
    `SELECT id FROM activity_fetch_job WHERE athlete_id = $1 AND outcome IN ('unknownAthlete', 'unauthorized', 'forbidden')`,
    [athleteId],
  );
  return rows.map((row) => row.id);
}

/** Keeps an athlete's jobs as they are until the transaction ends. To be taken before the athlete is written. */
export async function lockJobsOfAthlete(tx: Queryable, athleteId: Int64): Promise<void> {
  await tx.query('SELECT FROM athlete_schedule WHERE athlete_id = $1 FOR UPDATE', [athleteId]);
}

/**
 * Locks jobs in the common lock order, so that none of them is claimed, settled or requested again until the
 * transaction ends. Locks nothing of those that are deleted at the same time.
 */
export async function lockFetchJobs(tx: Queryable, ids: readonly Int64[]): Promise<void> {
  await tx.query(
    `SELECT FROM athlete_schedule s
     WHERE s.athlete_id IN (SELECT j.athlete_id FROM activity_fetch_job j WHERE j.id = ANY ($1::bigint[]))
     ORDER BY s.athlete_id FOR UPDATE`,
    [ids],
  );
  await tx.query('SELECT FROM activity_fetch_job WHERE id = ANY ($1::bigint[]) ORDER BY activity_id FOR UPDATE', [ids]);
}

/**
 * Deletes jobs that are locked, with their attempts.
 * @returns the pg-boss jobs, which are to be deleted in the same transaction
 */
export async function deleteFetchJobRows(tx: Queryable, ids: readonly Int64[]): Promise<string[]> {
  const rows = await tx.query<{ boss_job_id: string }>(
    'DELETE FROM activity_fetch_job WHERE id = ANY ($1::bigint[]) RETURNING boss_job_id',
    [ids],
  );
  return rows.map((row) => row.boss_job_id);
}

/** A pending job's place in the queue; undefined when it is not pending. */
export async function findWaitingBossJob(
  tx: Queryable,
  id: Int64,
): Promise<{ bossJobId: string; athleteId: Int64; lane: Reason | 'delete' } | undefined> {
  const [row] = await tx.query<{ boss_job_id: string; athlete_id: string; lane: Reason | 'delete' }>(
    `SELECT f.boss_job_id, l.athlete_id, l.reason AS lane
     FROM activity_fetch_job r JOIN fetch_queue() f ON f.boss_job_id = r.boss_job_id JOIN lane l ON l.lane = f.lane
     WHERE r.id = $1 AND r.outcome IS NULL AND f.waiting`,
    [id],
  );
  return row && { bossJobId: row.boss_job_id, athleteId: row.athlete_id, lane: row.lane };
}
