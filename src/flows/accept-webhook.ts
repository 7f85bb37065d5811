import type { PgBoss } from 'pg-boss';
import type { ActivityEvent } from '../domain/job.ts';
import type { Database } from '../infra/database.ts';
import { INTAKE_LOCK_MS, INTAKE_STATEMENT_MS, LOCK_MS } from '../infra/database-policy.ts';
import { type AcceptResult, acceptEvents } from '../queue/accept.ts';
import { createBatcher } from '../queue/batcher.ts';

/** Accepts one event of an activity; resolves when ledger row, request and job are durable. */
export type AcceptWebhook = (event: ActivityEvent) => Promise<AcceptResult>;

const MAX_BATCH = 200;
const CONNECTIONS = 3;

/**
 * Accepts webhook events. Under load, many share one transaction: what arrives while one commits forms the next. If a
 * batch fails, each athlete's events are accepted separately, so that only a locked athlete's events fail.
 */
export function createAcceptWebhook(database: Database, boss: PgBoss): AcceptWebhook {
  const intake = database.reserve({ maxConnections: CONNECTIONS, statementMs: INTAKE_STATEMENT_MS });
  const accept = (events: readonly ActivityEvent[], lockMs: number) =>
    intake.transaction((tx) => acceptEvents(boss, tx, events), { lockMs });
  return createBatcher<ActivityEvent, AcceptResult>({
    maxBatch: MAX_BATCH,
    keyOf: ({ objectId }) => objectId,
    run: async (events) => {
      try {
        return await accept(events, INTAKE_LOCK_MS);
      } catch (error) {
        const byAthlete = Map.groupBy(events, ({ ownerId }) => ownerId);
        if (byAthlete.size === 1) throw error;
        const results = new Map([...byAthlete].map(([ownerId, group]) => [ownerId, accept(group, LOCK_MS)]));
        return events.map(async ({ objectId, ownerId }) => {
          const ofAthlete = (await results.get(ownerId)) ?? [];
          return ofAthlete.find(({ activityId }) => activityId === objectId) as AcceptResult;
        });
      }
    },
  });
}
