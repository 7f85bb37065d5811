import type { PgBoss } from 'pg-boss';
import type { ActivityEvent } from '../domain/job.ts';
import type { Database } from '../infra/database.ts';
import { acceptActivityEvents, type RequestResult } from '../queue/requests.ts';
import { createBatcher } from './batcher.ts';

/** Accepts one event of an activity; resolves when ledger row, request and job are durable. */
export type AcceptWebhook = (event: ActivityEvent) => Promise<RequestResult>;

const MAX_BATCH = 200;
const TRIES = 3;
// A concurrent transaction was in the way (serialization failure, deadlock): the same again succeeds.
const TRY_AGAIN = new Set(['40001', '40P01']);

/**
 * The webhook's way into the database. Under load, many deliveries share one transaction: what arrives
 * while one commits makes the next.
 */
export function createAcceptWebhook(database: Database, boss: PgBoss): AcceptWebhook {
  const acceptTogether = async (events: ActivityEvent[]): Promise<RequestResult[]> => {
    for (let attempt = 1; ; attempt += 1) {
      try {
        const results = await database.transaction((tx) => acceptActivityEvents(boss, tx, events));
        const byActivity = new Map(results.map((result) => [result.activityId, result]));
        return events.map((event) => byActivity.get(event.objectId) as RequestResult);
      } catch (error) {
        if (attempt === TRIES || !TRY_AGAIN.has(String((error as { code?: unknown }).code))) throw error;
      }
    }
  };
  return createBatcher({ maxBatch: MAX_BATCH, keyOf: (event) => event.objectId, run: acceptTogether });
}
