import type { Int64 } from '../domain/int64.ts';
import type { Queryable } from '../infra/database.ts';

/** Something that an operator looks for. */
export type Found =
  | { kind: 'job'; id: Int64; activityId: Int64; athleteId: Int64 }
  | { kind: 'activity'; id: Int64; athleteId: Int64; name: string }
  | { kind: 'athlete'; id: Int64; name: string | null };

const MOST_OF_A_KIND = 10;
/** Names of older activities are not searched: they have no index. */
const NEWEST_ACTIVITIES = 5000;

/** Jobs, activities and athletes with this id; a job also by the id of its activity. */
export async function findById(database: Queryable, id: Int64): Promise<Found[]> {
  const [jobs, activities, athletes] = await Promise.all([
    database.query<Found>(
      `SELECT 'job' AS kind, id, activity_id AS "activityId", athlete_id AS "athleteId" FROM activity_fetch_job WHERE id = $1 OR activity_id = $1`,
      [id],
    ),
    database.query<Found>(
      `SELECT 'activity' AS kind, activity_id AS id, athlete_id AS "athleteId", name FROM activity WHERE activity_id = $1`,
      [id],
    ),
    database.query<Found>(`SELECT 'athlete' AS kind, athlete_id AS id, name FROM athlete WHERE athlete_id = $1`, [id]),
  ]);
  return [...jobs, ...activities, ...athletes];
}

/** Athletes, and activities among the newest, whose name contains the text in either case. */
export async function findByName(database: Queryable, text: string): Promise<Found[]> {
  const [athletes, activities] = await Promise.all([
    database.query<Found>(
      `SELECT 'athlete' AS kind, athlete_id AS id, name FROM athlete
       WHERE position(lower($1) in lower(name)) > 0 ORDER BY name, athlete_id LIMIT ${MOST_OF_A_KIND}`,
      [text],
    ),
    database.query<Found>(
      `SELECT 'activity' AS kind, id, "athleteId", name FROM (
         SELECT activity_id AS id, athlete_id AS "athleteId", name FROM activity ORDER BY start_date DESC, activity_id DESC LIMIT ${NEWEST_ACTIVITIES}
       ) newest WHERE position(lower($1) in lower(name)) > 0 LIMIT ${MOST_OF_A_KIND}`,
      [text],
    ),
  ]);
  return [...athletes, ...activities];
}

/** The names of connected athletes, by id; those without one are left out. */
export async function readAthleteNames(database: Queryable, ids: readonly Int64[]): Promise<Record<Int64, string>> {
  const rows = await database.query<{ id: string; name: string }>(
    'SELECT athlete_id AS id, name FROM athlete WHERE athlete_id = ANY ($1::bigint[]) AND name IS NOT NULL',
    [ids],
  );
  return Object.fromEntries(rows.map(({ id, name }) => [id, name]));
}
