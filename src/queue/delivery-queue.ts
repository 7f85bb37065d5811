import { randomUUID } from 'node:crypto';
import type { PgBoss } from 'pg-boss';
import type { Int64 } from '../domain/int64.ts';
import { DELIVERY_QUEUE } from '../infra/boss.ts';
import type { Database, Queryable } from '../infra/database.ts';
import { attemptsOf, type ClaimToken, deleteClaims, mustAffect, saveClaims } from './claims.ts';
import { type FindDead, rescueDead } from './rescue-dead.ts';

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
 * Claims attempts that are due for a process. Those to failing endpoints get no more than half.
 * @param most how many in all
 * @param mostFailing how many to failing endpoints
 */
export async function claimDeliveries(
  database: Database,
  boss: PgBoss,
  processId: number,
  most: number,
  mostFailing: number,
): Promise<(DeliveryRun & { failing: boolean })[]> {
  const claim = async (db: Queryable, batchSize: number, priority: number) => {
    if (batchSize <= 0) return [];
    const jobs = await boss.fetch<{ deliveryId: Int64 }>(DELIVERY_QUEUE, {
      batchSize,
      minPriority: priority,
      maxPriority: priority,
      groupConcurrency: LIMITS,
      db,
    });
    return jobs.map((job) => ({
      bossJobId: job.id,
      retryCount: job.retryCount,
      deliveryId: job.data.deliveryId,
      failing: priority === FAILING,
    }));
  };
  const failing = Math.min(mostFailing, Math.floor(most / 2));
  return database.transaction(async (tx) => {
    const runs = [...(await claim(tx, most - failing, NORMAL)), ...(await claim(tx, failing, FAILING))];
    await saveClaims(
      tx,
      runs.map(({ bossJobId }) => bossJobId),
      DELIVERY_QUEUE,
      processId,
    );
    return runs;
  });
}

/** Completes inside the caller's transaction. @throws ClaimLostError */
export async function completeDelivery(boss: PgBoss, tx: Queryable, run: DeliveryRun): Promise<void> {
  await mustAffect([run], boss.complete(DELIVERY_QUEUE, attemptsOf([run]), null, { db: tx }));
  await deleteClaims(tx, [run.bossJobId]);
}

/**
 * Releases an attempt that was not made, or whose result could not be stored: it is due again in a second.
 * @throws ClaimLostError
 */
export async function releaseDelivery(boss: PgBoss, tx: Queryable, run: ClaimToken, reason: string): Promise<void> {
  await mustAffect([run], boss.fail(DELIVERY_QUEUE, attemptsOf([run]), { message: reason }, { db: tx }));
  await deleteClaims(tx, [run.bossJobId]);
}

/** Releases the attempts of processes that died: they are due at once. @returns how many */
export async function rescueDeliveries(database: Database, boss: PgBoss, findDead: FindDead): Promise<number> {
  return rescueDead(database, 'delivery_queue', findDead, async (tx, claim) => {
    await releaseDelivery(boss, tx, claim, 'The process died during the call.');
    await boss.update(DELIVERY_QUEUE, undefined, { id: claim.bossJobId, startAfter: 0, db: tx });
  });
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
