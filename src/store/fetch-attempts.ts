import type { Int64 } from '../domain/int64.ts';
import type { Outcome } from '../domain/job.ts';
import type { Queryable } from '../infra/database.ts';

/** A run of a job. */
export interface FetchAttempt {
  startedAt: Date;
  endedAt: Date;
  /** Ended the job well, to be retried, released without an attempt, or failed for good. */
  result: 'done' | 'retry' | 'put_back' | 'failed';
  /** Of a run that ended the job; null otherwise, and for runs that an older release wrote. */
  outcome: Outcome | null;
  error: string | null;
}

/** The newest runs of a job, oldest of them first. */
export async function listAttempts(database: Queryable, jobId: Int64, limit: number): Promise<FetchAttempt[]> {
  const newest = await database.query<FetchAttempt>(
    `SELECT started_at AS "startedAt", ended_at AS "endedAt", result, outcome, error
     FROM fetch_attempt WHERE job_id = $1 ORDER BY id DESC LIMIT $2`,
    [jobId, limit],
  );
  return newest.reverse();
}
