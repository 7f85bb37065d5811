import type { PgBoss } from 'pg-boss';
import type { Int64 } from '../domain/int64.ts';
import type { Database, Queryable } from '../infra/database.ts';
import { deleteDeliveryJobs, queueDeliveries } from '../queue/delivery-queue.ts';
import { recordChanges } from '../store/changes.ts';
import { type LineHead, lockIdleHeads, setJobs, takeJobs } from '../store/delivery-log.ts';
import { type DisabledReason, setDisabled } from '../store/endpoints.ts';

/** Gives the heads of lines their jobs, inside the caller's transaction. */
export async function startLines(boss: PgBoss, tx: Queryable, heads: readonly LineHead[], delayMs = 0): Promise<void> {
  if (heads.length === 0) return;
  await setJobs(tx, await queueDeliveries(boss, tx, heads, delayMs));
}

/** Disables an endpoint inside the caller's transaction: what waits for it keeps waiting, without a job. */
export async function disableEndpoint(boss: PgBoss, tx: Queryable, id: Int64, reason: DisabledReason): Promise<void> {
  if (!(await setDisabled(tx, id, reason))) return;
  await deleteDeliveryJobs(boss, tx, await takeJobs(tx, id));
  await recordChanges(tx, [{ type: 'endpoint.disabled', endpointId: id }]);
}

/** Starts lines whose head was erased with its athlete, and whatever else lost its job. @returns how many */
export async function startIdleLines(deps: { database: Database; boss: PgBoss }): Promise<number> {
  return deps.database.transaction(async (tx) => {
    const heads = await lockIdleHeads(tx);
    await startLines(deps.boss, tx, heads);
    return heads.length;
  });
}
