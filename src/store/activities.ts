import type { Int64 } from '../domain/int64.ts';
import type { Queryable } from '../infra/database.ts';

/** A stored activity. Distances in metres, times in seconds. */
export interface Activity {
  activityId: Int64;
  athleteId: Int64;
  name: string;
  sportType: string;
  startDate: string;
  timezone: string | undefined;
  distanceM: number;
  movingTimeS: number;
  elapsedTimeS: number;
  elevationGainM: number;
  private: boolean;
}

/**
 * Stores or replaces an activity, with the provider's whole answer.
 * @param detail the answer as it came (JSON text)
 * @param runStartedAt a tombstone set after this time wins: the answer may be older than the deletion
 * @returns false when a tombstone won and nothing was stored
 */
export async function saveActivity(
  tx: Queryable,
  activity: Activity,
  detail: string,
  runStartedAt: string,
): Promise<boolean> {
  const [row] = await tx.query<{ saved: boolean }>(
    'SELECT save_activity($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12::text::json, $13::text::timestamptz) AS saved',
    [
      activity.activityId,
      activity.athleteId,
      activity.name,
      activity.sportType,
      activity.startDate,
      activity.timezone ?? null,
      activity.distanceM,
      activity.movingTimeS,
      activity.elapsedTimeS,
      activity.elevationGainM,
      activity.private,
      detail,
      runStartedAt,
    ],
  );
  return row?.saved ?? false;
}

/** Removes an activity with its thumbnail, whosever it was stored as, and leaves a tombstone. */
export async function deleteActivity(tx: Queryable, activityId: Int64, athleteId: Int64): Promise<void> {
  await tx.query(
    `INSERT INTO activity_tombstone (activity_id, athlete_id, deleted_at) VALUES ($1, $2, sync_clock())
     ON CONFLICT (activity_id) DO UPDATE SET deleted_at = excluded.deleted_at`,
    [activityId, athleteId],
  );
  await remove(tx, 'activity_id = $1', [activityId]);
}

/** The columns of one activity as JSON bodies show them. */
export interface ActivityRow {
  activity_id: string;
  athlete_id: string;
  name: string;
  sport_type: string;
  start_date: Date;
  timezone: string | null;
  distance_m: number;
  moving_time_s: number;
  elapsed_time_s: number;
  elevation_gain_m: number;
  private: boolean;
  fetched_at: Date;
  thumbnail_etag: string | null;
}

interface WholeActivityRow extends ActivityRow {
  polyline: string | null;
  /** The provider's whole answer, as JSON text. */
  detail: string;
}

const COLUMNS = `a.activity_id, a.athlete_id, a.name, a.sport_type, a.start_date, a.timezone, a.distance_m, a.moving_time_s,
  a.elapsed_time_s, a.elevation_gain_m, a.private, a.fetched_at, t.etag AS thumbnail_etag`;

export async function findActivity(database: Queryable, activityId: Int64): Promise<WholeActivityRow | undefined> {
  const rows = await database.query<WholeActivityRow>(
    `SELECT ${COLUMNS}, route_of(a.detail) AS polyline, a.detail::text AS detail FROM activity a LEFT JOIN thumbnail t USING (activity_id) WHERE a.activity_id = $1`,
    [activityId],
  );
  return rows[0];
}

/** An activity of a list; `cursor` names its place in the order. */
export type ActivityInList = ActivityRow & { cursor: string };

/**
 * Activities, newest first.
 * @param before the start (exact to the microsecond) and id of the last row of the page before
 */
export async function listActivities(
  database: Queryable,
  options: {
    athleteId?: Int64 | undefined;
    before?: { startDate: string; activityId: Int64 } | undefined;
    limit: number;
  },
): Promise<ActivityInList[]> {
  return database.query<ActivityInList>(
    `SELECT ${COLUMNS}, to_char(a.start_date AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') || '_' || a.activity_id AS cursor
     FROM activity a LEFT JOIN thumbnail t USING (activity_id)
     WHERE ${options.athleteId === undefined ? '$1::bigint IS NULL' : 'a.athlete_id = $1'}
       AND ${options.before === undefined ? '$2::timestamptz IS NULL AND $3::bigint IS NULL' : '(a.start_date, a.activity_id) < ($2, $3)'}
     ORDER BY a.start_date DESC, a.activity_id DESC LIMIT $4`,
    [options.athleteId ?? null, options.before?.startDate ?? null, options.before?.activityId ?? null, options.limit],
  );
}

/** Whom an activity is stored as; undefined when it is not stored. */
export async function findOwner(database: Queryable, activityId: Int64): Promise<Int64 | undefined> {
  const [row] = await database.query<{ athlete_id: string }>('SELECT athlete_id FROM activity WHERE activity_id = $1', [
    activityId,
  ]);
  return row?.athlete_id;
}

/** Removes an athlete's activity with its thumbnail; leaves no tombstone, and alone what is stored as another's. */
export async function removeActivity(tx: Queryable, activityId: Int64, athleteId: Int64): Promise<void> {
  await remove(tx, 'activity_id = $1 AND athlete_id = $2', [activityId, athleteId]);
}

async function remove(tx: Queryable, condition: string, values: Int64[]): Promise<void> {
  await tx.query(
    `DELETE FROM activity WHERE ${condition} RETURNING pg_notify('activity_sync', 'activity:' || activity_id)`,
    values,
  );
}
