import type { Int64 } from '../domain/int64.ts';
import type { Queryable } from '../infra/database.ts';

/** A run that did not finish its job. */
export interface FetchAttempt {
  startedAt: Date;
  endedAt: Date;
  /** Retried later, released without an attempt, or ended the job. */
  result: 'retry' | 'put_back' | 'failed';
  error: string;
}

/** The newest attempts of a job, oldest of them first. */
export async function listAttempts(database: Queryable, jobId: Int64, limit: number): Promise<FetchAttempt[]> {
  const newest = await database.query<FetchAttempt>(
    `SELECT started_at AS "startedAt", ended_at AS "endedAt", result, error
     FROM fetch_attempt WHERE job_id = $1 ORDER BY id DESC LIMIT $2`,
    [jobId, limit],
  );
  return newest.reverse();
}
