import type { ActivityEvent } from '../domain/job.ts';
import type { Database } from '../infra/database.ts';
import { isLockTimeout } from '../infra/database-errors.ts';
import { acceptActivityEvents, type RequestResult } from '../queue/requests.ts';
import { createBatcher } from './batcher.ts';

/** Accepts one event of an activity; resolves when ledger row, request and job are durable. */
export type AcceptWebhook = (event: ActivityEvent) => Promise<RequestResult>;

const MAX_BATCH = 200;
// While the server runs one batch, the next already waits on its side of the connection.
const DEPTH = 2;
// Nobody holds an athlete for that long but one who is lost. Those behind must not wait for it: the provider gives two
// seconds, and comes again.
const LOCK_TIMEOUT_MS = 700;
// What had to wait with the locked athlete has waited long enough.
const LOCK_TIMEOUT_AFTER_THAT_MS = 100;
// Data, constraint or limit: something that one event holds, none is known to pass the checks before.
const OF_ONE_EVENT = /^(22|23|54)...$/;

/**
 * The webhook's way into the database. Under load, many deliveries share one transaction: what arrives
 * while one commits makes the next. An athlete whom somebody has locked fails alone, with all deliveries that
 * are there by then, so that the wait for them is one.
 */
export function createAcceptWebhook(database: Database): AcceptWebhook {
  const pipeline = database.openPipeline({ lockTimeoutMs: LOCK_TIMEOUT_MS });
  // Not behind the batch that waits on the other connection by then, perhaps for the same athlete.
  const afterLock = database.openPipeline({ lockTimeoutMs: LOCK_TIMEOUT_AFTER_THAT_MS });
  const acceptTogether = async (events: ActivityEvent[], isPart: boolean): Promise<RequestResult[]> => {
    const results = await acceptActivityEvents(isPart ? afterLock : pipeline, events);
    const byActivity = new Map(results.map((result) => [result.activityId, result]));
    return events.map((event) => byActivity.get(event.objectId) as RequestResult);
  };
  return createBatcher({
    maxBatch: MAX_BATCH,
    depth: DEPTH,
    keyOf: (event) => event.objectId,
    run: acceptTogether,
    isOfOneItem: (error) => OF_ONE_EVENT.test(String((error as { code?: unknown }).code)),
    groups: { of: ({ ownerId }) => ownerId, isOfOne: isLockTimeout },
  });
}
