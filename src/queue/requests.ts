import type { JobInsert, PgBoss } from 'pg-boss';
import { coalesce, type KnownRequest } from '../domain/coalesce.ts';
import type { Int64 } from '../domain/int64.ts';
import { type Aspect, type FetchRequest, MAX_ATTEMPTS, type Reason } from '../domain/job.ts';
import { FETCH_QUEUE } from '../infra/boss.ts';
import type { Queryable } from '../infra/database.ts';
import { notify } from '../infra/notify.ts';
import { lockAthletes } from './athlete-locks.ts';
import { type LaneReason, laneReasonOf, wakeLanes } from './lanes.ts';

/** The result of a request: a run of its own, part of an open one, or nothing. */
export interface RequestResult {
  activityId: Int64;
  athleteId: Int64;
  /** The ActivityFetchJob's id. */
  jobId: Int64;
  result: 'accepted' | 'joined' | 'stale';
}

/**
 * Requests fetches inside the caller's transaction, at most one for each activity. One for an activity that was
 * requested before joins that request by the rules of `coalesce`.
 */
export async function requestFetches(
  boss: PgBoss,
  tx: Queryable,
  requests: readonly FetchRequest[],
): Promise<RequestResult[]> {
  if (requests.length === 0) return [];
  await lockAthletes(
    tx,
    requests.map(({ athleteId }) => athleteId),
  );
  return addRequests(boss, tx, requests);
}

/** The same for athletes who are already locked. */
export async function addRequests(
  boss: PgBoss,
  tx: Queryable,
  requests: readonly FetchRequest[],
): Promise<RequestResult[]> {
  const added = await insertRequests(tx, requests);
  const joining = requests.filter(({ activityId }) => !added.has(activityId));
  const joined = joining.length > 0 ? await joinRequests(tx, joining) : [];
  await placeJobs(boss, tx, [...added.values(), ...joined.flatMap(({ place }) => place ?? [])]);
  return [
    ...[...added.values()].map(({ activityId, athleteId, jobId }) => ({
      activityId,
      athleteId,
      jobId,
      result: 'accepted' as const,
    })),
    ...joined.map(({ result }) => result),
  ];
}

/**
 * Re-opens finished requests: same ActivityFetchJob, a new pg-boss job, attempts 0. Athletes are locked first.
 * @returns those that were finished
 */
export async function reopenJobs(boss: PgBoss, tx: Queryable, jobIds: readonly Int64[]): Promise<Int64[]> {
  if (jobIds.length === 0) return [];
  const owners = await tx.query<{ athlete_id: string }>(
    'SELECT DISTINCT athlete_id FROM activity_fetch_job WHERE id = ANY ($1::bigint[])',
    [jobIds],
  );
  await lockAthletes(
    tx,
    owners.map((row) => row.athlete_id),
  );
  const rows = await tx.query<RequestRow & { old_boss_job_id: string }>(
    `UPDATE activity_fetch_job r SET outcome = NULL, boss_job_id = gen_random_uuid(), version = r.version + 1, reclaims = 0, requested_at = sync_now()
     FROM (SELECT id, boss_job_id FROM activity_fetch_job WHERE id = ANY ($1::bigint[]) AND outcome IS NOT NULL ORDER BY activity_id FOR UPDATE) o
     WHERE r.id = o.id
     RETURNING r.id, r.activity_id, r.athlete_id, r.boss_job_id, r.reason, r.aspect, r.signed, o.boss_job_id AS old_boss_job_id`,
    [jobIds],
  );
  await placeJobs(
    boss,
    tx,
    rows.map((row) => ({ ...toPlace(row), replaces: row.old_boss_job_id })),
  );
  return rows.map((row) => row.id);
}

/** A pg-boss job to insert, or to move to another lane. */
export interface JobPlace {
  jobId: Int64;
  activityId: Int64;
  athleteId: Int64;
  bossJobId: string;
  lane: LaneReason;
  /** The pg-boss job that this one replaces; a run of it finds its claim lost. */
  replaces?: string;
  /** The job is already waiting, and changes its lane. */
  moves?: true;
  /** Retries that were used before this job was made. */
  attempts?: number;
  /** The last error, which a new pg-boss job would not know. */
  error?: string;
}

/** Inserts and moves pg-boss jobs of requests whose athletes are locked, and wakes their lanes and the workers. */
export async function placeJobs(boss: PgBoss, tx: Queryable, places: readonly JobPlace[]): Promise<void> {
  if (places.length === 0) return;
  const lanes = await wakeLanes(tx, places);
  const replaced = places.flatMap(({ replaces }) => replaces ?? []);
  if (replaced.length > 0) await boss.deleteJob(FETCH_QUEUE, replaced, { db: tx });
  const inserts = places.flatMap((place, n) => (place.moves ? [] : [toInsert(place, lanes[n] as number)]));
  if (inserts.length > 0) await boss.insert(FETCH_QUEUE, inserts, { db: tx });
  for (const [n, place] of places.entries()) {
    if (!place.moves) continue;
    // A deletion without a call has no backoff.
    const now = place.lane === 'delete' ? { startAfter: 0 } : {};
    await boss.update(FETCH_QUEUE, undefined, {
      id: place.bossJobId,
      priority: lanes[n] as number,
      ...now,
      db: tx,
    });
  }
  await notify(tx, 'fetch');
}

function toInsert(place: JobPlace, priority: number): JobInsert {
  return {
    id: place.bossJobId,
    priority,
    singletonKey: place.activityId,
    group: { id: place.athleteId },
    data: { activityId: place.activityId, ...(place.error === undefined ? {} : { error: place.error }) },
    ...(place.attempts ? { retryLimit: MAX_ATTEMPTS - place.attempts } : {}),
  };
}

interface RequestRow {
  id: string;
  activity_id: string;
  athlete_id: string;
  boss_job_id: string;
  reason: Reason;
  aspect: Aspect;
  signed: boolean;
}

function toPlace(row: RequestRow): JobPlace {
  return {
    jobId: row.id,
    activityId: row.activity_id,
    athleteId: row.athlete_id,
    bossJobId: row.boss_job_id,
    lane: laneReasonOf(row),
  };
}

/** Inserts the requests for activities that have none. @returns their jobs by activity */
async function insertRequests(tx: Queryable, requests: readonly FetchRequest[]): Promise<Map<Int64, JobPlace>> {
  const rows = await tx.query<RequestRow>(
    `INSERT INTO activity_fetch_job (activity_id, athlete_id, reason, force, aspect, event_time, signed, created_at, requested_at)
     SELECT q.activity_id, q.athlete_id, q.reason, q.force, q.aspect, q.event_time, q.signed, sync_now(), sync_now()
     FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::boolean[], $5::event_aspect[], $6::timestamptz[], $7::boolean[])
       AS q (activity_id, athlete_id, reason, force, aspect, event_time, signed)
     ORDER BY q.activity_id
     ON CONFLICT (activity_id) DO NOTHING
     RETURNING id, activity_id, athlete_id, boss_job_id, reason, aspect, signed`,
    [
      requests.map(({ activityId }) => activityId),
      requests.map(({ athleteId }) => athleteId),
      requests.map(({ reason }) => reason),
      requests.map(({ force }) => force),
      requests.map(({ aspect }) => aspect ?? 'create'),
      // An unconfirmed deletion makes no other event out of date.
      requests.map(({ aspect, signed, eventTime }) => (aspect === 'delete' && !signed ? null : (eventTime ?? null))),
      requests.map(({ signed }) => signed ?? false),
    ],
  );
  return new Map(rows.map((row) => [row.activity_id, toPlace(row)]));
}

const FIND_KNOWN = `
  SELECT r.id, r.activity_id, r.athlete_id, r.boss_job_id, r.reason, r.force, r.aspect, r.signed, r.event_time,
    CASE WHEN f.waiting THEN 'waiting' WHEN f.running THEN 'running' ELSE 'finished' END AS state,
    EXISTS (SELECT FROM activity a WHERE a.activity_id = r.activity_id AND a.athlete_id = r.athlete_id) AS stored
  FROM activity_fetch_job r LEFT JOIN fetch_queue() f ON f.boss_job_id = r.boss_job_id
  WHERE r.activity_id = ANY ($1::bigint[])`;

interface KnownRow extends RequestRow {
  force: boolean;
  event_time: Date | null;
  state: KnownRequest['state'];
  stored: boolean;
}

/** Joins requests to the ones that their activities have already. */
async function joinRequests(
  tx: Queryable,
  requests: readonly FetchRequest[],
): Promise<{ result: RequestResult; place?: JobPlace }[]> {
  const ids = requests.map(({ activityId }) => activityId);
  // Locked before pg-boss's rows are read, so that a run that is just settling is seen as settled.
  await tx.query(
    'SELECT FROM activity_fetch_job WHERE activity_id = ANY ($1::bigint[]) ORDER BY activity_id FOR UPDATE',
    [ids],
  );
  const known = new Map((await tx.query<KnownRow>(FIND_KNOWN, [ids])).map((row) => [row.activity_id, row]));
  const changes: (KnownRow & { reopened: boolean })[] = [];
  const joined = requests.map((request): { result: RequestResult; place?: JobPlace } => {
    const row = known.get(request.activityId);
    if (!row) throw new DeletedMeanwhileError(request.activityId);
    const { result, change } = coalesce({ ...row, athleteId: row.athlete_id, eventTime: row.event_time }, request);
    const changed = {
      ...row,
      ...change,
      athlete_id: change?.athleteId ?? row.athlete_id,
      event_time: change?.eventTime ?? row.event_time,
      boss_job_id: change?.newJob ? crypto.randomUUID() : row.boss_job_id,
      reopened: change?.reopened ?? false,
    };
    if (change) changes.push(changed);
    const place = toPlace(changed);
    const place_ = change?.newJob
      ? { ...place, replaces: row.boss_job_id }
      : row.state === 'waiting' && place.lane !== laneReasonOf(row)
        ? { ...place, moves: true as const }
        : undefined;
    return {
      result: { activityId: row.activity_id, athleteId: changed.athlete_id, jobId: row.id, result },
      ...(place_ ? { place: place_ } : {}),
    };
  });
  if (changes.length > 0) await writeChanges(tx, changes);
  return joined;
}

async function writeChanges(tx: Queryable, changes: readonly (KnownRow & { reopened: boolean })[]): Promise<void> {
  await tx.query(
    `UPDATE activity_fetch_job r SET athlete_id = c.athlete_id, reason = c.reason, force = c.force, aspect = c.aspect, signed = c.signed,
       event_time = c.event_time, boss_job_id = c.boss_job_id, version = r.version + 1, requested_at = sync_now(),
       outcome = CASE WHEN c.reopened THEN NULL ELSE r.outcome END, reclaims = CASE WHEN c.reopened THEN 0 ELSE r.reclaims END
     FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::boolean[], $5::event_aspect[], $6::boolean[], $7::timestamptz[], $8::uuid[], $9::boolean[])
       AS c (id, athlete_id, reason, force, aspect, signed, event_time, boss_job_id, reopened)
     WHERE r.id = c.id`,
    [
      changes.map(({ id }) => id),
      changes.map(({ athlete_id }) => athlete_id),
      changes.map(({ reason }) => reason),
      changes.map(({ force }) => force),
      changes.map(({ aspect }) => aspect),
      changes.map(({ signed }) => signed),
      changes.map(({ event_time }) => event_time),
      changes.map(({ boss_job_id }) => boss_job_id),
      changes.map(({ reopened }) => reopened),
    ],
  );
}

/** The request that another one was about to join has been deleted: the transaction is run again. */
class DeletedMeanwhileError extends Error {
  override name = 'DeletedMeanwhileError';
  /** PostgreSQL's serialization_failure, upon which a transaction is repeated. */
  readonly code = '40001';
  constructor(activityId: Int64) {
    super(`The job of activity ${activityId} was deleted while a request for it was being accepted.`);
  }
}
