import { randomUUID } from 'node:crypto';
import type { PgBoss } from 'pg-boss';
import type { Int64 } from '../domain/int64.ts';
import { DELIVERY_QUEUE } from '../infra/boss.ts';
import type { Database, Queryable } from '../infra/database.ts';
import { attemptsOf, type ClaimToken, mustAffect } from './claims.ts';

/** A claimed attempt at a delivery. */
export interface DeliveryRun extends ClaimToken {
  deliveryId: Int64;
}

/** A delivery that needs a job, and what is known of its endpoint. */
export interface DeliveryToQueue {
  id: Int64;
  endpointId: Int64;
  failing: boolean;
  proven: boolean;
}

// Concurrent calls to one endpoint, over all processes. One that has accepted nothing yet, or nothing since a failure,
// may hang: it gets one.
const CALLS_OF_HEALTHY = 8;
const CALLS_OF_OTHERS = 1;
const LIMITS = { default: CALLS_OF_OTHERS, tiers: { healthy: CALLS_OF_HEALTHY } };
const FAILING = -1;
const NORMAL = 0;

/** Queues attempts inside the caller's transaction. @returns the job of each */
export async function queueDeliveries(
  boss: PgBoss,
  tx: Queryable,
  deliveries: readonly DeliveryToQueue[],
  delayMs: number,
): Promise<{ deliveryId: Int64; jobId: string }[]> {
  const queued = deliveries.map((delivery) => ({ ...delivery, jobId: randomUUID() }));
  await boss.insert(
    DELIVERY_QUEUE,
    queued.map(({ jobId, id, endpointId, failing, proven }) => ({
      id: jobId,
      data: { deliveryId: id },
      group: { id: endpointId, tier: proven && !failing ? 'healthy' : 'other' },
      priority: failing ? FAILING : NORMAL,
      ...(delayMs > 0 && { startAfter: `${delayMs} milliseconds` }),
    })),
    { db: tx },
  );
  return queued.map(({ id, jobId }) => ({ deliveryId: id, jobId }));
}

/**
 * Claims attempts that are due. Those to failing endpoints get no more than half.
 * @param most how many in all
 * @param mostFailing how many to failing endpoints
 */
export async function claimDeliveries(
  boss: PgBoss,
  most: number,
  mostFailing: number,
): Promise<(DeliveryRun & { failing: boolean })[]> {
  const claim = async (batchSize: number, priority: number) => {
    if (batchSize <= 0) return [];
    const jobs = await boss.fetch<{ deliveryId: Int64 }>(DELIVERY_QUEUE, {
      batchSize,
      minPriority: priority,
      maxPriority: priority,
      groupConcurrency: LIMITS,
    });
    return jobs.map((job) => ({
      bossJobId: job.id,
      retryCount: job.retryCount,
      deliveryId: job.data.deliveryId,
      failing: priority === FAILING,
    }));
  };
  const failing = Math.min(mostFailing, Math.floor(most / 2));
  return (await Promise.all([claim(most - failing, NORMAL), claim(failing, FAILING)])).flat();
}

/** Completes inside the caller's transaction. @throws ClaimLostError */
export async function completeDelivery(boss: PgBoss, tx: Queryable, run: DeliveryRun): Promise<void> {
  await mustAffect([run], boss.complete(DELIVERY_QUEUE, attemptsOf([run]), null, { db: tx }));
}

/** Releases an attempt that was not made, or whose result could not be stored: it is due again. */
export async function releaseDelivery(boss: PgBoss, run: DeliveryRun, reason: string): Promise<void> {
  await boss.fail(DELIVERY_QUEUE, attemptsOf([run]), { message: reason });
}

/**
 * Releases attempts of processes that died: a call and its settlement take seconds.
 * @param lostAfterMs how long an attempt may take
 * @returns how many
 */
export async function releaseLostDeliveries(boss: PgBoss, database: Database, lostAfterMs: number): Promise<number> {
  const lost = await database.query<{ id: string; retryCount: number }>(
    `SELECT boss_job_id AS id, retry_count AS "retryCount" FROM delivery_queue()
     WHERE running AND started_on < sync_now() - $1 * interval '1 ms'`,
    [lostAfterMs],
  );
  for (const job of lost) await boss.fail(DELIVERY_QUEUE, job, { message: 'its process died' });
  return lost.length;
}

export async function deleteDeliveryJobs(boss: PgBoss, tx: Queryable, jobIds: readonly string[]): Promise<void> {
  if (jobIds.length > 0) await boss.deleteJob(DELIVERY_QUEUE, [...jobIds], { db: tx });
}

/** Milliseconds until the next attempt falls due, by the database's clock; undefined when none is planned. */
export async function waitForDelivery(database: Database): Promise<number | undefined> {
  const [row] = await database.query<{ wait_ms: number | null }>(
    `SELECT ceil(extract(epoch FROM min(start_after) - sync_now()) * 1000)::float8 AS wait_ms
     FROM delivery_queue() WHERE waiting AND start_after > sync_now()`,
    [],
  );
  return row?.wait_ms ?? undefined;
}
