import type { Int64 } from '../domain/int64.ts';
import type { Queryable } from '../infra/database.ts';
import type { AthleteState } from './athletes.ts';

/** A connected athlete with what an operator needs. */
export interface AthleteRow {
  id: Int64;
  name: string | null;
  /** The application's own id for this user. */
  externalId: string | null;
  state: AthleteState;
  stateDetail: string | null;
  scope: string;
  connectedAt: Date;
  /** Start of the newest stored activity. */
  lastActivityAt: Date | null;
  waitingJobs: number;
  /** End of the cooldown; set while no fetch for the athlete may start. */
  cooldownUntil: Date | null;
}

/** Connected athletes in order of their ids. @param afterId the id of the last athlete of the page before */
export async function listAthletes(
  database: Queryable,
  options: { state?: AthleteState | undefined; afterId?: Int64 | undefined; limit: number },
): Promise<AthleteRow[]> {
  return database.query<AthleteRow>(
    `${ATHLETES} WHERE a.athlete_id > coalesce($1::bigint, 0) ${options.state === undefined ? 'AND $2::text IS NULL' : 'AND a.state = $2'}
     ORDER BY a.athlete_id LIMIT $3`,
    [options.afterId ?? null, options.state ?? null, options.limit],
  );
}

export async function findAthlete(database: Queryable, athleteId: Int64): Promise<AthleteRow | undefined> {
  return (await database.query<AthleteRow>(`${ATHLETES} WHERE a.athlete_id = $1`, [athleteId]))[0];
}

/** Whether anything is stored about an athlete, connected or not. */
export async function isAnythingKept(database: Queryable, athleteId: Int64): Promise<boolean> {
  const [row] = await database.query<{ kept: boolean }>(
    `SELECT EXISTS (SELECT FROM athlete WHERE athlete_id = $1) OR EXISTS (SELECT FROM activity_fetch_job WHERE athlete_id = $1)
       OR EXISTS (SELECT FROM activity WHERE athlete_id = $1) OR EXISTS (SELECT FROM webhook_event WHERE owner_id = $1) AS kept`,
    [athleteId],
  );
  return row?.kept ?? false;
}

/** How many athletes are connected, by state. */
export async function countAthletes(database: Queryable): Promise<Record<AthleteState, number>> {
  const rows = await database.query<{ state: AthleteState; athletes: number }>(
    'SELECT state, count(*)::int AS athletes FROM athlete GROUP BY state',
    [],
  );
  return { healthy: 0, reconnect: 0, scope: 0, ...Object.fromEntries(rows.map((row) => [row.state, row.athletes])) };
}

const ATHLETES = `
  SELECT a.athlete_id AS id, a.name, a.external_id AS "externalId", a.state, a.state_detail AS "stateDetail", a.scope, a.connected_at AS "connectedAt",
    (SELECT v.start_date FROM activity v WHERE v.athlete_id = a.athlete_id ORDER BY v.start_date DESC, v.activity_id DESC LIMIT 1) AS "lastActivityAt",
    (SELECT count(*)::int FROM fetch_queue() f WHERE f.waiting AND f.lane = ANY (ARRAY(SELECT l.lane FROM lane l WHERE l.athlete_id = a.athlete_id))) AS "waitingJobs",
    CASE WHEN s.cooldown_until > sync_now() THEN s.cooldown_until END AS "cooldownUntil"
  FROM athlete a LEFT JOIN athlete_schedule s ON s.athlete_id = a.athlete_id`;
