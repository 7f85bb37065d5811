import type { PgBoss } from 'pg-boss';
import type { Int64 } from '../domain/int64.ts';
import type { ActivityEvent } from '../domain/job.ts';
import type { Queryable } from '../infra/database.ts';
import { lockAthletes } from './athlete-locks.ts';
import { addRequests } from './requests.ts';

/** The result of an event: accepted, out of date, duplicate, or a deletion that removes nothing. */
export interface AcceptResult {
  activityId: Int64;
  /** The ActivityFetchJob's id; undefined where there is none. */
  jobId: Int64 | undefined;
  result: 'accepted' | 'stale' | 'duplicate' | 'refuted';
}

// A clock that far in the future is wrong.
const TRUSTED_AHEAD_MS = 3_600_000;

/**
 * Accepts webhook events of activities inside the caller's transaction: ledger row, request and job together. At most
 * one event for each activity. An exact repeat is counted in the ledger and changes nothing else.
 */
export async function acceptEvents(
  boss: PgBoss,
  tx: Queryable,
  events: readonly ActivityEvent[],
): Promise<AcceptResult[]> {
  await lockAthletes(
    tx,
    events.map(({ ownerId }) => ownerId),
  );
  const ledger = await writeLedger(tx, events);
  const fresh = events.filter(({ objectId }) => ledger.get(objectId)?.isNew);
  const refuted = await findRefuted(tx, fresh, ledger);
  const requested = await addRequests(
    boss,
    tx,
    fresh
      .filter(({ objectId }) => !refuted.has(objectId))
      .map(({ objectId, ownerId, aspect, eventTime, signed }) => ({
        activityId: objectId,
        athleteId: ownerId,
        reason: 'webhook',
        force: aspect === 'update',
        aspect,
        // An event counts as of the earlier of its time and its arrival.
        eventTime: new Date(Math.min(eventTime.getTime(), ledger.get(objectId)?.receivedAt.getTime() ?? Infinity)),
        signed,
      })),
  );
  const results = new Map<Int64, AcceptResult>();
  for (const { activityId, jobId, result } of requested)
    results.set(activityId, { activityId, jobId, result: result === 'joined' ? 'accepted' : result });
  for (const activityId of refuted) results.set(activityId, { activityId, jobId: undefined, result: 'refuted' });
  await writeResults(tx, ledger, results);
  const repeats = events.filter(({ objectId }) => !results.has(objectId)).map(({ objectId }) => objectId);
  for (const repeat of await findJobIds(tx, repeats)) results.set(repeat.activityId, repeat);
  return events.map(({ objectId }) => results.get(objectId) as AcceptResult);
}

interface LedgerRow {
  id: string;
  isNew: boolean;
  receivedAt: Date;
}

async function writeLedger(tx: Queryable, events: readonly ActivityEvent[]): Promise<Map<Int64, LedgerRow>> {
  const rows = await tx.query<{ id: string; object_id: string; deliveries: number; received_at: Date }>(
    `INSERT INTO webhook_event AS w (object_type, object_id, aspect_type, owner_id, subscription_id, event_time, updates)
     SELECT 'activity', e.* FROM unnest($1::bigint[], $2::event_aspect[], $3::bigint[], $4::bigint[], $5::timestamptz[], $6::jsonb[]) AS e
     ORDER BY 2
     ON CONFLICT ON CONSTRAINT webhook_event_once DO UPDATE SET deliveries = w.deliveries + 1, last_received_at = sync_now()
     RETURNING w.id, w.object_id, w.deliveries, w.received_at`,
    [
      events.map(({ objectId }) => objectId),
      events.map(({ aspect }) => aspect),
      events.map(({ ownerId }) => ownerId),
      events.map(({ subscriptionId }) => subscriptionId),
      events.map(({ eventTime }) => eventTime),
      events.map(({ updates }) => JSON.stringify(updates)),
    ],
  );
  return new Map(
    rows.map((row) => [row.object_id, { id: row.id, isNew: row.deliveries === 1, receivedAt: row.received_at }]),
  );
}

/** Deletions that remove nothing: of an activity that is stored as another athlete's, or dated far in the future. */
async function findRefuted(
  tx: Queryable,
  events: readonly ActivityEvent[],
  ledger: ReadonlyMap<Int64, LedgerRow>,
): Promise<Set<Int64>> {
  const deletions = events.filter(({ aspect }) => aspect === 'delete');
  if (deletions.length === 0) return new Set();
  const ahead = deletions.filter(
    ({ objectId, eventTime }) =>
      eventTime.getTime() > (ledger.get(objectId)?.receivedAt.getTime() ?? 0) + TRUSTED_AHEAD_MS,
  );
  const foreign = await tx.query<{ activity_id: string }>(
    `SELECT a.activity_id FROM unnest($1::bigint[], $2::bigint[]) AS d (activity_id, athlete_id)
     JOIN activity a ON a.activity_id = d.activity_id AND a.athlete_id <> d.athlete_id`,
    [deletions.map(({ objectId }) => objectId), deletions.map(({ ownerId }) => ownerId)],
  );
  return new Set([...ahead.map(({ objectId }) => objectId), ...foreign.map((row) => row.activity_id)]);
}

async function writeResults(
  tx: Queryable,
  ledger: ReadonlyMap<Int64, LedgerRow>,
  results: ReadonlyMap<Int64, AcceptResult>,
): Promise<void> {
  for (const result of ['stale', 'refuted'] as const) {
    const ids = [...results.values()]
      .filter((one) => one.result === result)
      .map((one) => ledger.get(one.activityId)?.id);
    if (ids.length > 0)
      await tx.query('UPDATE webhook_event SET result = $2 WHERE id = ANY ($1::bigint[])', [ids, result]);
  }
}

async function findJobIds(tx: Queryable, activityIds: readonly Int64[]): Promise<AcceptResult[]> {
  if (activityIds.length === 0) return [];
  const rows = await tx.query<{ activity_id: string; id: string | null }>(
    `SELECT e.activity_id, r.id FROM unnest($1::bigint[]) AS e (activity_id)
     LEFT JOIN activity_fetch_job r ON r.activity_id = e.activity_id`,
    [activityIds],
  );
  return rows.map((row) => ({ activityId: row.activity_id, jobId: row.id ?? undefined, result: 'duplicate' }));
}
