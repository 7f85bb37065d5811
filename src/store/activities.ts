import type { Activity } from '../domain/activity.ts';
import type { Int64 } from '../domain/int64.ts';
import type { Queryable } from '../infra/database.ts';
import { notify } from '../infra/notify.ts';
import { NOT_HIDDEN } from './athletes.ts';

/** A fetched activity with the provider's whole answer, as JSON text. */
export interface ActivityToSave {
  activity: Activity;
  detail: string;
  /** A tombstone set after this time wins: the answer may be older than the deletion. Database time, as text. */
  runStartedAt: string;
}

/**
 * Stores or replaces activities, at most one for each id.
 * @returns those that were stored; `created`: not a replacement
 */
export async function saveActivities(
  tx: Queryable,
  fetched: readonly ActivityToSave[],
): Promise<{ activityId: Int64; athleteId: Int64; created: boolean }[]> {
  return tx.query(SAVE, [
    JSON.stringify(fetched.map(({ activity, runStartedAt }) => ({ ...activity, runStartedAt }))),
    fetched.map(({ detail }) => detail),
  ]);
}

const SAVE = `
  WITH fetched AS MATERIALIZED (
    SELECT f.*, d.detail::json AS detail
    FROM ROWS FROM (jsonb_to_recordset($1::text::jsonb) AS ("activityId" bigint, "athleteId" bigint, name text, "sportType" text,
      "startDate" timestamptz, timezone text, "distanceM" double precision, "movingTimeS" integer, "elapsedTimeS" integer,
      "elevationGainM" double precision, private boolean, "runStartedAt" timestamptz)) WITH ORDINALITY AS f
    JOIN unnest($2::text[]) WITH ORDINALITY AS d (detail, n) ON d.n = f.ordinality
  ), outdated AS (
    DELETE FROM activity_tombstone t USING fetched f WHERE t.activity_id = f."activityId" AND t.deleted_at <= f."runStartedAt"
  )
  INSERT INTO activity AS a (activity_id, athlete_id, name, sport_type, start_date, timezone, distance_m, moving_time_s, elapsed_time_s,
    elevation_gain_m, private, detail, fetched_at)
  SELECT f."activityId", f."athleteId", f.name, f."sportType", f."startDate", f.timezone, f."distanceM", f."movingTimeS", f."elapsedTimeS",
    f."elevationGainM", f.private, f.detail, sync_now()
  FROM fetched f
  WHERE NOT EXISTS (SELECT FROM activity_tombstone t WHERE t.activity_id = f."activityId" AND t.deleted_at > f."runStartedAt")
  ORDER BY f."activityId"
  ON CONFLICT (activity_id) DO UPDATE SET
    athlete_id = excluded.athlete_id, name = excluded.name, sport_type = excluded.sport_type, start_date = excluded.start_date,
    timezone = excluded.timezone, distance_m = excluded.distance_m, moving_time_s = excluded.moving_time_s,
    elapsed_time_s = excluded.elapsed_time_s, elevation_gain_m = excluded.elevation_gain_m, private = excluded.private,
    detail = excluded.detail, fetched_at = excluded.fetched_at
  RETURNING a.activity_id AS "activityId", a.athlete_id AS "athleteId", a.xmax = 0 AS created`;

/** An activity's route in the provider's encoding: the whole one where there is one, else the summary; NULL: none. */
export const ROUTE = `coalesce(nullif(detail #>> '{map,polyline}', ''), nullif(detail #>> '{map,summary_polyline}', ''))`;

/** Removes an athlete's activity with its thumbnail, and leaves a tombstone. */
export async function deleteActivity(tx: Queryable, activityId: Int64, athleteId: Int64): Promise<void> {
  await tx.query(
    `INSERT INTO activity_tombstone (activity_id, athlete_id, deleted_at) VALUES ($1, $2, sync_clock())
     ON CONFLICT (activity_id) DO UPDATE SET deleted_at = excluded.deleted_at`,
    [activityId, athleteId],
  );
  await removeActivity(tx, activityId, athleteId);
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
  /** Null: the athlete has none, or is not connected any more. */
  athlete_name: string | null;
}

interface WholeActivityRow extends ActivityRow {
  polyline: string | null;
  /** The provider's whole answer, as JSON text. */
  detail: string;
}

const COLUMNS = `a.activity_id, a.athlete_id, a.name, a.sport_type, a.start_date, a.timezone, a.distance_m, a.moving_time_s,
  a.elapsed_time_s, a.elevation_gain_m, a.private, a.fetched_at, t.etag AS thumbnail_etag,
  (SELECT p.name FROM athlete p WHERE p.athlete_id = a.athlete_id) AS athlete_name`;

export async function findActivity(database: Queryable, activityId: Int64): Promise<WholeActivityRow | undefined> {
  const rows = await database.query<WholeActivityRow>(
    `SELECT ${COLUMNS}, ${ROUTE} AS polyline, a.detail::text AS detail FROM activity a LEFT JOIN thumbnail t USING (activity_id) WHERE a.activity_id = $1 AND ${NOT_HIDDEN}`,
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
       AND ${NOT_HIDDEN} AND ${options.before === undefined ? '$2::timestamptz IS NULL AND $3::bigint IS NULL' : '(a.start_date, a.activity_id) < ($2, $3)'}
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

/** Removes an athlete's activity with its thumbnail; leaves alone what is stored as another's. */
export async function removeActivity(tx: Queryable, activityId: Int64, athleteId: Int64): Promise<boolean> {
  const rows = await tx.query('DELETE FROM activity WHERE activity_id = $1 AND athlete_id = $2 RETURNING activity_id', [
    activityId,
    athleteId,
  ]);
  if (rows.length > 0) await notify(tx, 'activity', activityId);
  return rows.length > 0;
}
