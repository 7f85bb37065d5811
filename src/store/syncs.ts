import type { Int64 } from '../domain/int64.ts';
import type { Database, Queryable } from '../infra/database.ts';
import { notify } from '../infra/notify.ts';

/** A bulk sync, as it stands in the database. Bounds in epoch seconds, exclusive. */
export interface StoredSync {
  id: Int64;
  /** Null: all athletes. */
  athleteId: Int64 | null;
  afterS: number | null;
  beforeS: number;
  force: boolean;
  state: 'running' | 'finished' | 'cancelled' | 'failed';
  error: string | null;
  athletes: number;
  athletesListed: number;
  athletesFailed: number;
  pages: number;
  listed: number;
  queued: number;
  fetched: number;
  fetchesFailed: number;
  openItems: number;
  busiestAthlete: number;
  /** Lists that are still to be read. */
  walks: number;
  /** When the next page may be read, if that is later than now. */
  waitingUntil: Date | null;
  createdAt: Date;
  finishedAt: Date | null;
}

/** What a sync is asked for; `beforeS` undefined: up to now. */
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
export async function createSync(database: Database, request: SyncRequest): Promise<Int64 | undefined> {
  return database.transaction(async (tx) => {
    const athletes = await tx.query<{ athlete_id: string }>(
      `SELECT athlete_id FROM athlete WHERE state = 'healthy' AND ($1::bigint IS NULL OR athlete_id = $1)
       ORDER BY athlete_id FOR KEY SHARE`,
      [request.athleteId ?? null],
    );
    if (athletes.length === 0) return undefined;
    const [created] = await tx.query<{ id: string; before_s: string }>(CREATE, [
      request.athleteId ?? null,
      request.afterS ?? null,
      request.beforeS ?? null,
      request.force,
      athletes.length,
    ]);
    if (!created) throw new Error('the sync was not stored');
    await tx.query(
      'INSERT INTO manual_sync_walk (sync_id, athlete_id, before_s) SELECT $1, athlete_id, $2 FROM unnest($3::bigint[]) AS a (athlete_id)',
      [created.id, created.before_s, athletes.map((row) => row.athlete_id)],
    );
    await notifyOfSync(tx, created.id);
    return created.id;
  });
}

// An activity that starts in the second of the request still belongs to the sync.
const CREATE = `
  INSERT INTO manual_sync (athlete_id, after_s, before_s, force, athletes)
  VALUES ($1, $2, least($3::bigint, floor(extract(epoch FROM sync_now()))::bigint + 1), $4, $5)
  RETURNING id, before_s`;

const COLUMNS = `s.id, s.athlete_id AS "athleteId", s.after_s::float8 AS "afterS", s.before_s::float8 AS "beforeS", s.force, s.state,
  s.error, s.athletes, s.athletes_listed AS "athletesListed", s.athletes_failed AS "athletesFailed", s.pages, s.listed, s.queued,
  s.fetched, s.fetches_failed AS "fetchesFailed", s.open_items AS "openItems", s.busiest_athlete AS "busiestAthlete",
  (SELECT count(*)::int FROM manual_sync_walk w WHERE w.sync_id = s.id) AS walks,
  CASE WHEN s.state = 'running' AND s.list_due_at > sync_now() THEN s.list_due_at END AS "waitingUntil",
  s.created_at AS "createdAt", s.finished_at AS "finishedAt"`;

export async function findSync(database: Queryable, id: Int64): Promise<StoredSync | undefined> {
  const rows = await database.query<StoredSync>(`SELECT ${COLUMNS} FROM manual_sync s WHERE s.id = $1`, [id]);
  return rows[0];
}

/** Syncs, newest first. @param beforeId the last one of the page before */
export async function listSyncs(database: Queryable, limit: number, beforeId?: Int64): Promise<StoredSync[]> {
  return database.query<StoredSync>(
    `SELECT ${COLUMNS} FROM manual_sync s WHERE $2::bigint IS NULL OR s.id < $2 ORDER BY s.id DESC LIMIT $1`,
    [limit, beforeId ?? null],
  );
}

/**
 * Cancels a running sync: no list is read any more; what it queued and nobody has begun is removed by the
 * sync worker.
 * @returns false when it was not running
 */
export async function cancelSync(database: Database, id: Int64): Promise<boolean> {
  return database.transaction(async (tx) => {
    const rows = await tx.query(
      `UPDATE manual_sync SET state = 'cancelled', finished_at = sync_now(), list_due_at = NULL, count_due_at = sync_now(), holder = NULL,
         lease_until = '-infinity'
       WHERE id = $1 AND state = 'running' RETURNING id`,
      [id],
    );
    if (rows.length === 0) return false;
    await tx.query('DELETE FROM manual_sync_walk WHERE sync_id = $1', [id]);
    await notifyOfSync(tx, id);
    return true;
  });
}

/** Removes what syncs of all athletes noted about one of them. */
export async function forgetAthleteInSyncs(tx: Queryable, athleteId: Int64): Promise<void> {
  await tx.query(`UPDATE manual_sync SET error = NULL WHERE error ~ ('\\m' || $1 || '\\M')`, [athleteId]);
}

/** Tells workers and watchers that something about a sync has changed. */
export async function notifyOfSync(tx: Queryable, id: Int64): Promise<void> {
  await notify(tx, 'sync', id);
}
