import type { Int64 } from '../domain/int64.ts';
import type { Queryable } from '../infra/database.ts';
import { notify } from '../infra/notify.ts';

export type DeliveryState = 'waiting' | 'delivered' | 'exhausted';
export type AttemptResult = 'delivered' | 'retry' | 'exhausted';

/** What is sent: a change, or a test. */
export interface DeliveryMessage {
  /** The webhook-id. */
  changeId: string;
  /** Cursor of the change; null for a test. */
  cursor: string | null;
  type: string;
  at: Date;
  athleteId: Int64 | null;
  externalId: string | null;
  activityId: Int64 | null;
}

/** A delivery whose next attempt is due. */
export interface OpenDelivery extends DeliveryMessage {
  id: Int64;
  endpointId: Int64;
  attempts: number;
  url: string;
  isDisabled: boolean;
  /** Encrypted; the newest first. */
  sealedSecrets: string[];
}

const MESSAGE = `d.change_id AS "changeId", d.position AS cursor, d.type, d.at, d.athlete_id AS "athleteId", d.external_id AS "externalId",
  d.activity_id AS "activityId"`;

/** The delivery that a job is for; undefined when it is settled, deleted, or has another job. */
export async function findOpenDelivery(
  database: Queryable,
  deliveryId: Int64,
  jobId: string,
): Promise<OpenDelivery | undefined> {
  const [row] = await database.query<OpenDelivery>(
    `SELECT d.id, d.endpoint_id AS "endpointId", d.attempts, ${MESSAGE}, e.url, e.disabled_at IS NOT NULL AS "isDisabled",
       array_remove(ARRAY[e.secret, CASE WHEN e.former_until > sync_now() THEN e.former_secret END], NULL) AS "sealedSecrets"
     FROM delivery d JOIN endpoint e ON e.id = d.endpoint_id WHERE d.id = $1 AND d.job_id = $2 AND d.state = 'waiting'`,
    [deliveryId, jobId],
  );
  return row;
}

/** A delivery that is at the head of its line. */
export interface LineHead {
  id: Int64;
  endpointId: Int64;
  /** Whether every recent delivery to the endpoint has failed. */
  failing: boolean;
  /** Whether the endpoint has accepted anything yet. */
  proven: boolean;
}

const HEAD = `d.id, d.endpoint_id AS "endpointId", e.failing_since IS NOT NULL AS failing, e.succeeded_at IS NOT NULL AS proven`;

/**
 * Makes deliveries of the changes behind each endpoint's position, and moves the positions on; both or neither.
 * @param limit of changes at once
 * @returns the heads of lines that were empty before, which need a job; and whether there may be more to do
 */
export async function insertDeliveriesOfChanges(
  tx: Queryable,
  limit: number,
): Promise<{ made: Int64[]; more: boolean }> {
  const endpoints = await tx.query<{ id: string; position: string; newest: string }>(
    `SELECT e.id, e.position, f.position AS newest FROM endpoint e, change_feed f
     WHERE e.disabled_at IS NULL AND e.position < f.position ORDER BY e.id FOR UPDATE OF e`,
    [],
  );
  const newest = endpoints[0]?.newest;
  if (newest === undefined) return { made: [], more: false };
  const after = endpoints.map(({ position }) => BigInt(position)).reduce((a, b) => (a < b ? a : b));
  // Locked against an erasure, which removes a change first and then its deliveries.
  const changes = await tx.query<{ position: string }>(
    'SELECT position FROM change WHERE position > $1 ORDER BY position LIMIT $2 FOR KEY SHARE',
    [String(after), limit],
  );
  const last = changes.at(-1)?.position;
  const ids = endpoints.map(({ id }) => id);
  if (last === undefined) {
    // Erased or expired in the meantime. Only up to the position that was read: a change may have come after the read.
    await tx.query('UPDATE endpoint SET position = greatest(position, $2) WHERE id = ANY ($1::bigint[])', [
      ids,
      newest,
    ]);
    return { made: [], more: false };
  }
  const made = await tx.query<{ id: string }>(
    `INSERT INTO delivery (endpoint_id, change_id, position, type, at, athlete_id, external_id, activity_id)
     SELECT e.id, c.id, c.position, c.type, c.at, c.athlete_id, c.external_id, c.activity_id
     FROM change c JOIN endpoint e ON e.id = ANY ($1::bigint[]) AND c.position > e.position AND (e.types IS NULL OR c.type = ANY (e.types))
       AND (e.athlete_ids IS NULL OR c.athlete_id = ANY (e.athlete_ids))
     WHERE c.position > $2 AND c.position <= $3 AND c.type <> 'endpoint.disabled'
     ORDER BY c.position, e.id RETURNING id`,
    [ids, String(after), last],
  );
  await tx.query('UPDATE endpoint SET position = greatest(position, $2) WHERE id = ANY ($1::bigint[])', [ids, last]);
  return { made: made.map(({ id }) => id), more: changes.length === limit };
}

/**
 * Repeats the deliveries of the changes since a time, except those still waiting, and queues them behind those.
 * The changes are locked against an erasure, which removes a change first and then its deliveries.
 * @returns undefined when there are more than `most`; then none is queued
 */
export async function insertReplay(
  tx: Queryable,
  endpointId: Int64,
  since: Date,
  most: number,
): Promise<Int64[] | undefined> {
  const [row] = await tx.query<{ isTooMany: boolean; made: Int64[] }>(
    `WITH found AS MATERIALIZED (
       SELECT e.id AS endpoint_id, c.id AS change_id, c.position, c.type, c.at, c.athlete_id, c.external_id, c.activity_id
       FROM endpoint e JOIN change c ON c.position <= e.position AND c.at >= $2 AND c.type <> 'endpoint.disabled'
         AND (e.types IS NULL OR c.type = ANY (e.types)) AND (e.athlete_ids IS NULL OR c.athlete_id = ANY (e.athlete_ids))
       WHERE e.id = $1 AND NOT EXISTS (SELECT FROM delivery w WHERE w.endpoint_id = e.id AND w.change_id = c.id AND w.state = 'waiting')
       LIMIT $3 + 1 FOR KEY SHARE OF c
     ), made AS (
       INSERT INTO delivery (endpoint_id, change_id, position, type, at, athlete_id, external_id, activity_id)
       SELECT * FROM found WHERE (SELECT count(*) FROM found) <= $3 ORDER BY position RETURNING id
     )
     SELECT (SELECT count(*) FROM found) > $3 AS "isTooMany", ARRAY(SELECT id::text FROM made) AS made`,
    [endpointId, since, most],
  );
  return row?.isTooMany ? undefined : row?.made;
}

/** Makes a delivery of its own. */
export async function insertDelivery(tx: Queryable, endpointId: Int64, message: DeliveryMessage): Promise<Int64> {
  const [row] = await tx.query<{ id: string }>(
    `INSERT INTO delivery (endpoint_id, change_id, position, type, at, athlete_id, external_id, activity_id)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8) RETURNING id`,
    [
      endpointId,
      message.changeId,
      message.cursor,
      message.type,
      message.at,
      message.athleteId,
      message.externalId,
      message.activityId,
    ],
  );
  return (row as { id: string }).id;
}

/** Those of these deliveries that are at the head of their line, to enabled endpoints. The caller has locked the endpoints. */
export async function findHeadsAmong(tx: Queryable, deliveryIds: readonly Int64[]): Promise<LineHead[]> {
  return tx.query<LineHead>(
    `SELECT ${HEAD} FROM delivery d JOIN endpoint e ON e.id = d.endpoint_id
     WHERE d.id = ANY ($1::bigint[]) AND d.state = 'waiting' AND e.disabled_at IS NULL AND NOT EXISTS (
       SELECT FROM delivery o WHERE o.endpoint_id = d.endpoint_id AND o.line = d.line AND o.state = 'waiting' AND o.id < d.id)
     ORDER BY d.id`,
    [deliveryIds],
  );
}

/** The head of the line that a delivery was in; undefined when the line is empty. */
export async function findNextHead(tx: Queryable, deliveryId: Int64): Promise<LineHead | undefined> {
  const [row] = await tx.query<LineHead>(
    `SELECT ${HEAD} FROM delivery was
     JOIN delivery d ON d.endpoint_id = was.endpoint_id AND d.line = was.line AND d.state = 'waiting'
     JOIN endpoint e ON e.id = d.endpoint_id
     WHERE was.id = $1 ORDER BY d.id LIMIT 1`,
    [deliveryId],
  );
  return row;
}

/** The heads of all lines of an endpoint. */
export async function findHeadsOfEndpoint(tx: Queryable, endpointId: Int64): Promise<LineHead[]> {
  return tx.query<LineHead>(
    `SELECT DISTINCT ON (d.line) ${HEAD} FROM delivery d JOIN endpoint e ON e.id = d.endpoint_id
     WHERE d.endpoint_id = $1 AND d.state = 'waiting' ORDER BY d.line, d.id`,
    [endpointId],
  );
}

/** The delivery as it is now, for the job of its next attempt. */
export async function findHead(tx: Queryable, deliveryId: Int64): Promise<LineHead | undefined> {
  const [row] = await tx.query<LineHead>(
    `SELECT ${HEAD} FROM delivery d JOIN endpoint e ON e.id = d.endpoint_id WHERE d.id = $1 AND d.state = 'waiting'`,
    [deliveryId],
  );
  return row;
}

/** Records the jobs of deliveries, and wakes the delivery workers. */
export async function setJobs(tx: Queryable, jobs: readonly { deliveryId: Int64; jobId: string }[]): Promise<void> {
  await tx.query(
    'UPDATE delivery d SET job_id = j.job_id FROM unnest($1::bigint[], $2::uuid[]) AS j (id, job_id) WHERE d.id = j.id',
    [jobs.map(({ deliveryId }) => deliveryId), jobs.map(({ jobId }) => jobId)],
  );
  if (jobs.length > 0) await notify(tx, 'delivery');
}

/** Detaches the jobs from an endpoint's deliveries. @returns their ids, to be deleted in the same transaction */
export async function takeJobs(tx: Queryable, endpointId: Int64): Promise<string[]> {
  const rows = await tx.query<{ job_id: string }>(
    `WITH had AS (SELECT id, job_id FROM delivery WHERE endpoint_id = $1 AND state = 'waiting' AND job_id IS NOT NULL FOR UPDATE)
     UPDATE delivery d SET job_id = NULL FROM had WHERE d.id = had.id RETURNING had.job_id`,
    [endpointId],
  );
  return rows.map(({ job_id }) => job_id);
}

/** How an attempt went. */
export interface Attempt {
  durationMs: number;
  /** HTTP status; undefined when there was no answer. */
  status: number | undefined;
  error: string | undefined;
  /** The beginning of the answer's body. */
  answer: string | undefined;
  result: AttemptResult;
}

/** Records an attempt and settles its delivery accordingly. @returns false when the delivery no longer exists */
export async function recordAttempt(tx: Queryable, delivery: OpenDelivery, attempt: Attempt): Promise<boolean> {
  const rows = await tx.query(
    `WITH settled AS (
       UPDATE delivery SET attempts = attempts + 1, job_id = NULL, state = CASE WHEN $6 = 'retry' THEN 'waiting' ELSE $6 END,
         settled_at = CASE WHEN $6 <> 'retry' THEN sync_now() END
       WHERE id = $1 AND state = 'waiting' RETURNING id, endpoint_id
     )
     INSERT INTO delivery_attempt (delivery_id, endpoint_id, duration_ms, status, error, answer, result)
     SELECT id, endpoint_id, $2, $3, $4, $5, $6 FROM settled RETURNING id`,
    [
      delivery.id,
      Math.round(attempt.durationMs),
      attempt.status ?? null,
      attempt.error ?? null,
      attempt.answer ?? null,
      attempt.result,
    ],
  );
  return rows.length === 1;
}

/** An attempt with what it was for. */
export interface AttemptRow {
  id: Int64;
  deliveryId: Int64;
  changeId: string;
  type: string;
  athleteId: Int64 | null;
  activityId: Int64 | null;
  at: Date;
  durationMs: number;
  status: number | null;
  error: string | null;
  answer: string | null;
  result: AttemptResult;
}

/** Attempts of an endpoint, newest first. @param options.beforeId the id of the last row of the page before */
export async function listAttempts(
  database: Queryable,
  options: {
    endpointId: Int64;
    result?: AttemptResult | undefined;
    activityId?: Int64 | undefined;
    beforeId?: Int64 | undefined;
    limit: number;
  },
): Promise<AttemptRow[]> {
  // BETWEEN: for an equality PostgreSQL walks the primary key, past the attempts of all other endpoints.
  return database.query<AttemptRow>(
    `SELECT a.id, a.delivery_id AS "deliveryId", d.change_id AS "changeId", d.type, d.athlete_id AS "athleteId", d.activity_id AS "activityId",
       a.at, a.duration_ms AS "durationMs", a.status, a.error, a.answer, a.result
     FROM delivery_attempt a JOIN delivery d ON d.id = a.delivery_id
     WHERE a.endpoint_id BETWEEN $1 AND $1 AND ($2::bigint IS NULL OR a.id < $2) AND ($3::text IS NULL OR a.result = $3) AND ($4::bigint IS NULL OR d.activity_id = $4)
     ORDER BY a.endpoint_id, a.id DESC LIMIT $5`,
    [options.endpointId, options.beforeId ?? null, options.result ?? null, options.activityId ?? null, options.limit],
  );
}

/** What an attempt had sent; undefined when the endpoint has no such attempt. */
export async function findAttempted(
  database: Queryable,
  endpointId: Int64,
  attemptId: Int64,
): Promise<(DeliveryMessage & { state: DeliveryState }) | undefined> {
  const [row] = await database.query<DeliveryMessage & { state: DeliveryState }>(
    `SELECT d.state, ${MESSAGE} FROM delivery_attempt a JOIN delivery d ON d.id = a.delivery_id WHERE a.id = $2 AND a.endpoint_id = $1`,
    [endpointId, attemptId],
  );
  return row;
}

/** How many deliveries wait, and for how long the first has been due, in seconds. */
export async function readBacklog(database: Queryable): Promise<{ waiting: number; oldestDueS: number }> {
  const [row] = await database.query<{ waiting: number; oldestDueS: number }>(
    `SELECT (SELECT count(*)::int FROM delivery WHERE state = 'waiting') AS waiting,
       (SELECT greatest(0, coalesce(max(extract(epoch FROM sync_now() - start_after)), 0))::float8 FROM delivery_queue()
        WHERE waiting) AS "oldestDueS"`,
    [],
  );
  return row ?? { waiting: 0, oldestDueS: 0 };
}

/** Deletes a batch of deliveries that were settled before, with their attempts. @returns how many; 0 when none is left */
export async function deleteOldDeliveries(database: Queryable, before: Date): Promise<number> {
  const rows = await database.query(
    `DELETE FROM delivery WHERE id = ANY (ARRAY(
       SELECT id FROM delivery WHERE state <> 'waiting' AND settled_at < $1 ORDER BY settled_at LIMIT 1000)) RETURNING 1 AS one`,
    [before],
  );
  return rows.length;
}

/** Heads of lines that have no job although their endpoint is enabled; their endpoints are locked. */
export async function lockIdleHeads(tx: Queryable): Promise<LineHead[]> {
  const endpoints = await tx.query<{ id: string }>(
    `SELECT id FROM endpoint WHERE disabled_at IS NULL AND id IN (${IDLE_LINES}) ORDER BY id FOR UPDATE`,
    [],
  );
  if (endpoints.length === 0) return [];
  return tx.query<LineHead>(
    `SELECT ${HEAD} FROM delivery d JOIN endpoint e ON e.id = d.endpoint_id
     WHERE d.endpoint_id = ANY ($1::bigint[]) AND d.state = 'waiting' AND d.job_id IS NULL AND NOT EXISTS (
       SELECT FROM delivery o WHERE o.endpoint_id = d.endpoint_id AND o.line = d.line AND o.state = 'waiting' AND o.id < d.id)`,
    [endpoints.map(({ id }) => id)],
  );
}

const IDLE_LINES = `SELECT h.endpoint_id FROM (
  SELECT DISTINCT ON (endpoint_id, line) endpoint_id, job_id FROM delivery WHERE state = 'waiting' ORDER BY endpoint_id, line, id
) h WHERE h.job_id IS NULL`;
