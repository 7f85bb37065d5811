import type { PgBoss } from 'pg-boss';
import type { Int64 } from '../domain/int64.ts';
import type { Database, Queryable } from '../infra/database.ts';
import { type RequestResult, requestFetches } from '../queue/requests.ts';
import { type Requester, recordRequests } from '../store/fetch-requests.ts';
import { type EventFilter, findEvent, listEventsToReplay, type WebhookEventRow } from '../store/webhook-events.ts';
import type { BatchRun } from './job-batches.ts';

/**
 * Repeats what a delivery in the ledger requested: fetches the activity even if it is stored or, for
 * a delete event, deletes it, even when newer events have arrived since.
 * @returns what became of the request; undefined when the ledger has no such event
 */
export async function replayEvent(
  deps: { database: Database; boss: PgBoss },
  id: Int64,
  by?: Requester,
): Promise<RequestResult | undefined> {
  return deps.database.transaction(async (tx) => {
    const event = await findEvent(tx, id);
    if (!event?.activityId) return undefined;
    const [result] = await requestFetches(deps.boss, tx, [
      {
        activityId: event.activityId,
        athleteId: event.athleteId,
        reason: 'webhook',
        force: true,
        aspect: event.aspect,
        ...(event.aspect === 'delete' ? { eventTime: await newestEventTime(tx, event) } : {}),
      },
    ]);
    if (result) await recordRequests(tx, [result.jobId], { kind: 'replay', by, source: id });
    return result;
  });
}

const BATCH = 100;

/**
 * Replays of each activity the newest delivery that matches: an older one says nothing that this one does not.
 * @returns how many
 */
export async function replayEvents(
  deps: { database: Database; boss: PgBoss },
  filter: EventFilter,
  run: BatchRun & { by: Requester },
): Promise<number> {
  let replayed = 0;
  let last: Int64 = '0';
  while (!run.signal.aborted) {
    const batch = await listEventsToReplay(deps.database, filter, last, BATCH);
    if (batch.length === 0) break;
    for (const { id } of batch) if (await replayEvent(deps, id, run.by)) replayed += 1;
    await run.onProgress?.(replayed);
    last = batch.at(-1)?.activityId ?? last;
  }
  return replayed;
}

// A request without an event time never turns a waiting fetch into a deletion: it needs one that is not older than the
// newest one known.
async function newestEventTime(tx: Queryable, event: WebhookEventRow): Promise<Date> {
  const [row] = await tx.query<{ at: Date }>(
    `SELECT greatest(max(j.event_time), $2::timestamptz) AS at FROM activity_fetch_job j WHERE j.activity_id = $1`,
    [event.activityId, event.eventTime],
  );
  return (row as { at: Date }).at;
}
