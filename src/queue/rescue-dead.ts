import type { Database, Queryable } from '../infra/database.ts';
import { ClaimLostError, type ClaimToken } from './claims.ts';

/** Which of these processes are certainly dead. */
export type FindDead = (processIds: number[]) => Promise<number[]>;

interface RunningRow extends ClaimToken {
  processId: number;
}

/**
 * Reclaims the running jobs of a queue from dead processes.
 * @param queue the SQL function that lists its jobs
 * @param release releases one to pg-boss, inside a transaction
 * @returns how many
 */
export async function rescueDead(
  database: Database,
  queue: 'thumbnail_queue' | 'delivery_queue',
  findDead: FindDead,
  release: (tx: Queryable, claim: ClaimToken) => Promise<void>,
): Promise<number> {
  const running = await database.query<RunningRow>(
    `SELECT q.boss_job_id AS "bossJobId", q.retry_count AS "retryCount", c.process_id AS "processId"
     FROM ${queue}() q JOIN job_claim c ON c.boss_job_id = q.boss_job_id WHERE q.running`,
    [],
  );
  const dead = new Set(await findDead([...new Set(running.map(({ processId }) => processId))]));
  let rescued = 0;
  for (const claim of running) {
    if (!dead.has(claim.processId)) continue;
    try {
      await database.transaction((tx) => release(tx, claim));
      rescued += 1;
    } catch (error) {
      // Settled, or rescued by another process, in the meantime.
      if (!(error instanceof ClaimLostError)) throw error;
    }
  }
  return rescued;
}
