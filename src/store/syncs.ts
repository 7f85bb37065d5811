import type { Int64 } from '../domain/int64.ts';
import type { Queryable } from '../infra/database.ts';

/** A manual sync, as the database has it. Bounds in epoch seconds, exclusive. */
export interface StoredSync {
  id: Int64;
  /** Null: all athletes. */
  athleteId: Int64 | null;
  state: 'running' | 'finished' | 'cancelled' | 'failed';
  force: boolean;
  afterS: number | null;
  beforeS: number;
  athletes: { total: number; listed: number; failed: number };
  pages: number;
  /** Activities seen in the lists. */
  listed: number;
  /** Fetches requested: those of `listed` that were not stored, or all of them with force, including already open ones. */
  queued: number;
  fetched: number;
  fetchesFailed: number;
  error: string | null;
  openItems: number;
  /** Open items of the athlete with the most. */
  busiestAthlete: number;
  /** Athletes whose lists are still to be read. */
  visits: number;
  /** When the next page may be read, if that is later than now. */
  waitingUntil: Date | null;
  createdAt: Date;
  finishedAt: Date | null;
}

/** What a sync covers; `beforeS` undefined: up to now. */
export interface SyncRequest {
  athleteId: Int64 | undefined;
  afterS: number | undefined;
  beforeS: number | undefined;
  force: boolean;
}

/**
 * Creates a sync with its fixed upper bound.
 * @returns its id; undefined when there is no athlete whose list can be read
 */
export async function createSync(database: Queryable, request: SyncRequest): Promise<Int64 | undefined> {
  const [created] = await database.query<{ id: Int64 }>(CREATE, [
    request.athleteId ?? null,
    request.afterS ?? null,
    request.beforeS ?? null,
    request.force,
  ]);
  return created?.id;
}

/** The minimum cost of a sync: pages of lists, and with force every stored activity. */
export interface SyncCost {
  athletes: number;
  pages: number;
  fetches: number;
  /** Those of the athlete with the most. */
  busiestAthlete: number;
}

/** Computes the minimum cost of a sync of all athletes from what is stored. Changes nothing. */
export async function countSyncCost(
  database: Queryable,
  { afterS, beforeS, force }: Omit<SyncRequest, 'athleteId'>,
  perPage: number,
): Promise<SyncCost> {
  const [row] = await database.query<SyncCost>(COST, [afterS ?? null, beforeS ?? null, force, perPage]);
  return row as SyncCost;
}

const COST = `
  SELECT count(*)::int AS athletes, coalesce(sum(ceil((n + 1) / $4::numeric)), 0)::int AS pages,
    CASE WHEN $3::boolean THEN coalesce(sum(n), 0) ELSE 0 END::int AS fetches,
    CASE WHEN $3::boolean THEN coalesce(max(n), 0) ELSE 0 END::int AS "busiestAthlete"
  FROM (SELECT (SELECT count(*) FROM activity v WHERE v.athlete_id = a.athlete_id
      AND ($1::bigint IS NULL OR v.start_date > to_timestamp($1)) AND ($2::bigint IS NULL OR v.start_date < to_timestamp($2))) AS n
    FROM athlete a WHERE a.state = 'healthy') stored`;

// An activity that starts in the second of the request still belongs to the sync.
const CREATE = `
  WITH readable AS (
    SELECT athlete_id FROM athlete WHERE state = 'healthy' AND ($1::bigint IS NULL OR athlete_id = $1) ORDER BY athlete_id FOR KEY SHARE
  ), created AS (
    INSERT INTO list_walk (kind, athlete_id, after_s, before_s, force, athletes, check_due_at)
    SELECT 'manual', $1, $2, least($3::bigint, floor(extract(epoch FROM sync_now()))::bigint + 1), $4, count(*), '-infinity'
    FROM readable HAVING count(*) > 0
    RETURNING id
  ), visits AS (
    INSERT INTO list_visit (walk_id, athlete_id) SELECT created.id, readable.athlete_id FROM created, readable
  )
  SELECT id, pg_notify('activity_sync', 'sync:' || id) FROM created`;

const SELECT_SYNC = `
  SELECT s.id, s.athlete_id AS "athleteId", s.after_s::float8 AS "afterS", s.before_s::float8 AS "beforeS", s.force, s.state,
    json_build_object('total', s.athletes, 'listed', s.athletes_listed, 'failed', s.athletes_failed) AS athletes,
    s.error, s.pages, s.listed, s.queued,
    s.fetched, s.fetches_failed AS "fetchesFailed", s.open_items AS "openItems", s.busiest_athlete AS "busiestAthlete", v.visits,
    CASE WHEN s.state = 'running' AND v.page_at > sync_now() THEN v.page_at END AS "waitingUntil",
    s.started_at AS "createdAt", s.finished_at AS "finishedAt"
  FROM list_walk s CROSS JOIN LATERAL
    (SELECT count(*)::int AS visits, greatest(s.not_before, min(not_before)) AS page_at FROM list_visit WHERE walk_id = s.id) v
  WHERE s.kind = 'manual'`;

export async function findSync(database: Queryable, id: Int64): Promise<StoredSync | undefined> {
  const rows = await database.query<StoredSync>(`${SELECT_SYNC} AND s.id = $1`, [id]);
  return rows[0];
}

/** Syncs, newest first. @param beforeId the last one of the page before */
export async function listSyncs(database: Queryable, limit: number, beforeId?: Int64): Promise<StoredSync[]> {
  return database.query<StoredSync>(
    `${SELECT_SYNC} AND ($2::bigint IS NULL OR s.id < $2) ORDER BY s.id DESC LIMIT $1`,
    [limit, beforeId ?? null],
  );
}

/**
 * Cancels a running sync: no list is read any more; its jobs that have not started are removed by the
 * list worker.
 * @returns false when it was not running
 */
export async function cancelSync(database: Queryable, id: Int64): Promise<boolean> {
  const cancelled = await database.query(
    `WITH cancelled AS (
       UPDATE list_walk SET state = 'cancelled', finished_at = sync_now(), check_due_at = sync_now(), claim_token = NULL,
         lease_until = '-infinity'
       WHERE id = $1 AND kind = 'manual' AND state = 'running' RETURNING id
     ), visits AS (DELETE FROM list_visit WHERE walk_id IN (SELECT id FROM cancelled))
     SELECT pg_notify('activity_sync', 'sync:' || id) FROM cancelled`,
    [id],
  );
  return cancelled.length > 0;
}

/** Removes what walks through all athletes recorded about one of them. */
export async function forgetAthleteInSyncs(tx: Queryable, athleteId: Int64): Promise<void> {
  await tx.query(`UPDATE list_walk SET error = NULL WHERE error ~ ('\\m' || $1 || '\\M')`, [athleteId]);
}
