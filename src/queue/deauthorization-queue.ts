import type { PgBoss } from 'pg-boss';
import type { Int64 } from '../domain/int64.ts';
import { DEAUTHORIZATION_QUEUE } from '../infra/boss.ts';
import type { Database, Queryable } from '../infra/database.ts';
import { notify } from '../infra/notify.ts';
import { attemptsOf, type ClaimToken, mustAffect } from './claims.ts';

const RETRY_AFTER_S = 3600;

/** A deauthorisation to confirm, or to carry out after the wait. */
export interface Deauthorization {
  athleteId: Int64;
  /** The ledger's row of the event. */
  eventId: Int64;
  /** When access was withdrawn: the earlier of the event's time and its arrival. ISO 8601. */
  withdrawnAt: string;
  /** `confirm`: ask the provider with the athlete's token. `erase`: hidden, and erased unless the athlete reconnects. */
  step: 'confirm' | 'erase';
}

export type DeauthorizationRun = ClaimToken & Deauthorization;

/** Queues a withdrawal inside the caller's transaction. @param delayS seconds until it is due */
export async function queueDeauthorization(
  boss: PgBoss,
  tx: Queryable,
  deauthorization: Deauthorization,
  delayS = 0,
): Promise<void> {
  await boss.insert(DEAUTHORIZATION_QUEUE, [{ data: deauthorization, startAfter: delayS }], { db: tx });
  await notify(tx, 'athlete');
}

export async function claimDeauthorization(boss: PgBoss): Promise<DeauthorizationRun | undefined> {
  const [job] = await boss.fetch<Deauthorization>(DEAUTHORIZATION_QUEUE, { batchSize: 1 });
  return job && { ...job.data, bossJobId: job.id, retryCount: job.retryCount };
}

/** Ends it inside the caller's transaction. @throws ClaimLostError */
export async function completeDeauthorization(boss: PgBoss, tx: Queryable, run: ClaimToken): Promise<void> {
  await mustAffect([run], boss.complete(DEAUTHORIZATION_QUEUE, attemptsOf([run]), null, { db: tx }));
}

/** Retries it in an hour, without an end. @throws ClaimLostError */
export async function retryDeauthorization(
  boss: PgBoss,
  database: Database,
  run: ClaimToken,
  error: string,
): Promise<void> {
  await database.transaction(async (tx) => {
    await mustAffect([run], boss.fail(DEAUTHORIZATION_QUEUE, attemptsOf([run]), { message: error }, { db: tx }));
    await boss.update(DEAUTHORIZATION_QUEUE, undefined, { id: run.bossJobId, startAfter: RETRY_AFTER_S, db: tx });
  });
}

/** Deletes all of an athlete's, ended or open, inside the caller's transaction. A current run loses its claim. */
export async function deleteDeauthorizations(boss: PgBoss, tx: Queryable, athleteId: Int64): Promise<void> {
  const jobs = await boss.findJobs(DEAUTHORIZATION_QUEUE, { data: { athleteId }, db: tx });
  if (jobs.length > 0)
    await boss.deleteJob(
      DEAUTHORIZATION_QUEUE,
      jobs.map(({ id }) => id),
      { db: tx },
    );
}
