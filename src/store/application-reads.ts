import type { Int64 } from '../domain/int64.ts';
import type { Queryable } from '../infra/database.ts';
import { type AthleteState, NOT_HIDDEN } from './athletes.ts';

/** An activity as the application gets it. Distances in metres, times in seconds. */
export interface ApplicationActivity {
  id: Int64;
  athleteId: Int64;
  externalId: string | null;
  name: string;
  sportType: string;
  startDate: Date;
  timezone: string | null;
  distanceM: number;
  movingTimeS: number;
  elapsedTimeS: number;
  elevationGainM: number;
  private: boolean;
  updatedAt: Date;
  hasThumbnail: boolean;
}

const ACTIVITY = `a.activity_id AS id, a.athlete_id AS "athleteId", u.external_id AS "externalId", a.name, a.sport_type AS "sportType",
  a.start_date AS "startDate", a.timezone, a.distance_m AS "distanceM", a.moving_time_s AS "movingTimeS", a.elapsed_time_s AS "elapsedTimeS",
  a.elevation_gain_m AS "elevationGainM", a.private, a.fetched_at AS "updatedAt",
  EXISTS (SELECT FROM thumbnail t WHERE t.activity_id = a.activity_id) AS "hasThumbnail"`;
const ACTIVITIES = 'activity a LEFT JOIN athlete u ON u.athlete_id = a.athlete_id';
// The data of an athlete with an unconfirmed deauthorisation is not shown.
const SHOWN = 'u.hidden_since IS NULL';

export async function findApplicationActivity(
  database: Queryable,
  activityId: Int64,
): Promise<ApplicationActivity | undefined> {
  const [row] = await database.query<ApplicationActivity>(
    `SELECT ${ACTIVITY} FROM ${ACTIVITIES} WHERE a.activity_id = $1 AND ${SHOWN}`,
    [activityId],
  );
  return row;
}

/** The provider's whole answer, as JSON text; undefined when the activity is not stored. */
export async function findRawActivity(database: Queryable, activityId: Int64): Promise<string | undefined> {
  const [row] = await database.query<{ detail: string }>(
    `SELECT a.detail::text AS detail FROM activity a WHERE a.activity_id = $1 AND ${NOT_HIDDEN}`,
    [activityId],
  );
  return row?.detail;
}

/**
 * Activities, newest first; `cursor` names a row's place in the order.
 * @param options.before the start (exact to the microsecond) and id of the last row of the page before
 */
export async function listApplicationActivities(
  database: Queryable,
  options: {
    athleteId?: Int64 | undefined;
    externalId?: string | undefined;
    updatedAfter?: Date | undefined;
    before?: { startDate: string; activityId: Int64 } | undefined;
    limit: number;
  },
): Promise<(ApplicationActivity & { cursor: string })[]> {
  const values: unknown[] = [options.limit];
  const conditions: string[] = [SHOWN];
  const where = (condition: (parameter: string) => string, value: unknown) => {
    if (value !== undefined) conditions.push(condition(`$${values.push(value)}`));
  };
  where((p) => `a.athlete_id = ${p}`, options.athleteId);
  where(
    (p) => `a.athlete_id = ANY (ARRAY(SELECT athlete_id FROM athlete WHERE external_id = ${p}))`,
    options.externalId,
  );
  where((p) => `a.fetched_at > ${p}`, options.updatedAfter);
  if (options.before) {
    const at = values.push(options.before.startDate);
    const id = values.push(options.before.activityId);
    conditions.push(`(a.start_date, a.activity_id) < ($${at}::timestamptz, $${id}::bigint)`);
  }
  return database.query(
    `SELECT ${ACTIVITY}, to_char(a.start_date AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') || '_' || a.activity_id AS cursor
     FROM ${ACTIVITIES} WHERE ${conditions.join(' AND ')}
     ORDER BY a.start_date DESC, a.activity_id DESC LIMIT $1`,
    values,
  );
}

/** An athlete as the application gets them. */
export interface ApplicationAthlete {
  id: Int64;
  externalId: string | null;
  name: string | null;
  state: AthleteState;
  scope: string;
  connectedAt: Date;
  updatedAt: Date;
  activities: number;
}

const ATHLETES = `SELECT a.athlete_id AS id, a.external_id AS "externalId",
    CASE WHEN a.hidden_since IS NULL THEN a.name END AS name, a.state, a.scope, a.connected_at AS "connectedAt",
    a.updated_at AS "updatedAt", (SELECT count(*)::int FROM activity v WHERE v.athlete_id = a.athlete_id AND a.hidden_since IS NULL) AS activities
  FROM athlete a`;

export async function findApplicationAthlete(
  database: Queryable,
  athleteId: Int64,
): Promise<ApplicationAthlete | undefined> {
  return (await database.query<ApplicationAthlete>(`${ATHLETES} WHERE a.athlete_id = $1`, [athleteId]))[0];
}

/** Connected athletes in order of their ids. @param options.afterId the id of the last athlete of the page before */
export async function listApplicationAthletes(
  database: Queryable,
  options: {
    externalId?: string | undefined;
    updatedAfter?: Date | undefined;
    afterId?: Int64 | undefined;
    limit: number;
  },
): Promise<ApplicationAthlete[]> {
  return database.query<ApplicationAthlete>(
    `${ATHLETES} WHERE a.athlete_id > coalesce($1::bigint, 0) AND ($2::text IS NULL OR a.external_id = $2)
       AND ($3::timestamptz IS NULL OR a.updated_at > $3)
     ORDER BY a.athlete_id LIMIT $4`,
    [options.afterId ?? null, options.externalId ?? null, options.updatedAfter ?? null, options.limit],
  );
}
