import type { Int64 } from '../domain/int64.ts';
import { type Aspect, DONE_OUTCOMES, type JobStatus, type Outcome } from '../domain/job.ts';
import type { Queryable } from '../infra/database.ts';

export const LEDGER_RESULTS = ['accepted', 'stale', 'refuted'] as const;
export type LedgerResult = (typeof LEDGER_RESULTS)[number];

/** A distinct event of the provider: when it was delivered, how often, and whether it changed anything. */
export interface WebhookEventRow {
  id: Int64;
  /** Null for an event of the athlete. */
  activityId: Int64 | null;
  athleteId: Int64;
  subscriptionId: Int64 | null;
  aspect: Aspect;
  eventTime: Date;
  updates: Record<string, unknown>;
  /** `stale`: older than the newest event handled; `refuted`: the deletion it announced was not true. */
  result: LedgerResult;
  deliveries: number;
  receivedAt: Date;
  lastReceivedAt: Date;
}

/** The result of an event: the activity's job, as it is now. */
export interface JobOfEvent {
  id: Int64;
  status: JobStatus;
  outcome: Outcome | null;
  error: string | null;
}

export interface EventFilter {
  athleteId?: Int64 | undefined;
  activityId?: Int64 | undefined;
  result?: LedgerResult | undefined;
  /** Received at or after, and before. */
  since?: Date | undefined;
  until?: Date | undefined;
}

const EVENT = `w.id, CASE WHEN w.object_type = 'activity' THEN w.object_id END AS "activityId", w.owner_id AS "athleteId", w.subscription_id AS "subscriptionId", w.aspect_type AS aspect,
  w.event_time AS "eventTime", w.updates, w.result, w.deliveries, w.received_at AS "receivedAt", w.last_received_at AS "lastReceivedAt"`;

/** The newest events of one activity, newest first. */
export async function listEventsOfActivity(
  database: Queryable,
  activityId: Int64,
  limit: number,
): Promise<WebhookEventRow[]> {
  return database.query<WebhookEventRow>(
    `SELECT ${EVENT} FROM webhook_event w WHERE w.object_type = 'activity' AND w.object_id = $1 ORDER BY w.event_time DESC, w.id DESC LIMIT $2`,
    [activityId, limit],
  );
}

/** An event with its result. */
export type LedgerEntry = WebhookEventRow & { job: JobOfEvent | null };

export async function findEvent(database: Queryable, id: Int64): Promise<LedgerEntry | undefined> {
  const [row] = await database.query<LedgerEntry>(
    `SELECT ${EVENT}, ${JOB} AS job FROM webhook_event w ${JOINED} WHERE w.id = $1`,
    [id],
  );
  return row;
}

/** An entry of a list; `cursor` names its place in the order. */
export type LedgerRow = LedgerEntry & { cursor: string };

/**
 * The ledger with each event's result, newest first.
 * @param before the time (exact to the microsecond) and id of the last row of the page before
 * @param atMost written into the statement; give the same number each time
 */
export async function listEvents(
  database: Queryable,
  filter: EventFilter,
  before: { at: string; id: Int64 } | undefined,
  atMost: number,
): Promise<LedgerRow[]> {
  const { values, conditions } = conditionsOf(filter);
  if (before) {
    values.push(before.at, before.id);
    conditions.push(`(w.received_at, w.id) < ($${values.length - 1}::timestamptz, $${values.length}::bigint)`);
  }
  return database.query<LedgerRow>(
    `SELECT ${EVENT}, to_char(w.received_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') || '_' || w.id AS cursor, ${JOB} AS job
     FROM (SELECT w.* FROM webhook_event w WHERE ${conditions.join(' AND ')} ORDER BY w.received_at DESC, w.id DESC LIMIT ${Math.trunc(atMost)}) w
     ${JOINED}
     ORDER BY w.received_at DESC, w.id DESC`,
    values,
  );
}

function conditionsOf(filter: EventFilter): { values: unknown[]; conditions: string[] } {
  const values: unknown[] = [];
  const conditions = ['true'];
  const add = (condition: (value: string) => string, value: unknown) => {
    if (value === undefined) return;
    values.push(value);
    conditions.push(condition(`$${values.length}`));
  };
  add((value) => `w.owner_id = ${value}`, filter.athleteId);
  add((value) => `w.object_type = 'activity' AND w.object_id = ${value}`, filter.activityId);
  // Written out: the stale ones have an index of their own.
  if (filter.result) conditions.push(`w.result = '${filter.result}'`);
  add((value) => `w.received_at >= ${value}`, filter.since);
  add((value) => `w.received_at < ${value}`, filter.until);
  return { values, conditions };
}

/** How many activities have a delivery that matches. */
export async function countActivitiesToReplay(database: Queryable, filter: EventFilter): Promise<number> {
  const { values, conditions } = conditionsOf(filter);
  const [row] = await database.query<{ activities: number }>(
    `SELECT count(DISTINCT w.object_id)::int AS activities FROM webhook_event w WHERE w.object_type = 'activity' AND ${conditions.join(' AND ')}`,
    values,
  );
  return row?.activities ?? 0;
}

/** The newest delivery that matches of each activity, in order of the activities. @param afterId the last one of the batch before */
export async function listEventsToReplay(
  database: Queryable,
  filter: EventFilter,
  afterId: Int64,
  limit: number,
): Promise<{ id: Int64; activityId: Int64 }[]> {
  const { values, conditions } = conditionsOf(filter);
  values.push(afterId, limit);
  return database.query(
    `SELECT DISTINCT ON (w.object_id) w.id, w.object_id AS "activityId" FROM webhook_event w
     WHERE w.object_type = 'activity' AND w.object_id > $${values.length - 1}::bigint AND ${conditions.join(' AND ')}
     ORDER BY w.object_id, w.event_time DESC, w.id DESC LIMIT $${values.length}`,
    values,
  );
}

const JOINED = `LEFT JOIN activity_fetch_job r ON r.activity_id = w.object_id AND w.object_type = 'activity'
  LEFT JOIN fetch_queue() f ON f.boss_job_id = r.boss_job_id`;

const DONE = DONE_OUTCOMES.map((outcome) => `'${outcome}'`).join(', ');
const JOB = `CASE WHEN r.id IS NOT NULL THEN jsonb_build_object('id', r.id::text,
  'status', CASE WHEN r.outcome IN (${DONE}) THEN 'done' WHEN r.outcome IS NOT NULL THEN 'failed'
    WHEN f.running THEN 'working' ELSE 'pending' END,
  'outcome', r.outcome, 'error', f.error) END`;

// A repeat may be newer than every first delivery.
export const LAST_RECEIVED = `SELECT greatest((SELECT max(received_at) FROM webhook_event),
  (SELECT max(last_received_at) FROM webhook_event WHERE deliveries > 1))`;

/** When the newest delivery was accepted; null while the ledger is empty. */
export async function findLastReceived(database: Queryable): Promise<Date | null> {
  const [row] = await database.query<{ at: Date | null }>(`SELECT (${LAST_RECEIVED}) AS at`, []);
  return row?.at ?? null;
}

/** Writes an athlete's event into the ledger. @returns undefined for an exact repeat, which is counted */
export async function addAthleteEvent(
  tx: Queryable,
  event: {
    athleteId: Int64;
    aspect: Aspect;
    eventTime: Date;
    subscriptionId: Int64;
    updates: Record<string, unknown>;
    result: LedgerResult;
  },
): Promise<{ id: Int64; receivedAt: Date } | undefined> {
  const [row] = await tx.query<{ id: string; received_at: Date; deliveries: number }>(
    `INSERT INTO webhook_event AS w (object_type, object_id, aspect_type, owner_id, subscription_id, event_time, updates, result)
     VALUES ('athlete', $1, $2, $1, $3, $4, $5::text::jsonb, $6)
     ON CONFLICT ON CONSTRAINT webhook_event_once DO UPDATE SET deliveries = w.deliveries + 1, last_received_at = sync_now()
     RETURNING w.id, w.received_at, w.deliveries`,
    [event.athleteId, event.aspect, event.subscriptionId, event.eventTime, JSON.stringify(event.updates), event.result],
  );
  return row && row.deliveries === 1 ? { id: row.id, receivedAt: row.received_at } : undefined;
}

/** Notes that what an event announced was not true. */
export async function refuteEvent(tx: Queryable, id: Int64): Promise<void> {
  await tx.query(`UPDATE webhook_event SET result = 'refuted' WHERE id = $1`, [id]);
}
