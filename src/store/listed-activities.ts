import type { Int64 } from '../domain/int64.ts';
import type { Queryable } from '../infra/database.ts';
import { ASK_AGAIN_AFTER } from './polling-differences.ts';

/** What is known of an activity that the provider lists. */
export interface KnownActivity {
  activityId: Int64;
  /** Deleted: an athlete's list may lag behind. */
  tombstoned: boolean;
  /** A fetch was requested, and its job still exists. */
  requested: boolean;
  /** A job is pending or working. */
  open: boolean;
  /** A sweep found it unknown and requested it not long ago, and it could not be fetched. */
  unfetchable: boolean;
  stored: boolean;
  /** The fields below are null when it is not stored. */
  name: string | null;
  sportType: string | null;
  startDate: Date | null;
  distanceM: number | null;
  movingTimeS: number | null;
  elapsedTimeS: number | null;
  private: boolean | null;
  fetchedAt: Date | null;
}

/**
 * Keeps an athlete's claims, requests and erasure out until the transaction ends, so that what is read
 * after it still holds when fetches are requested.
 * @returns when the athlete connected; undefined when they are not connected any more
 */
export async function lockListedAthlete(tx: Queryable, athleteId: Int64): Promise<Date | undefined> {
  await tx.query('INSERT INTO athlete_schedule (athlete_id) VALUES ($1) ON CONFLICT DO NOTHING', [athleteId]);
  await tx.query('SELECT FROM athlete_schedule WHERE athlete_id = $1 FOR UPDATE', [athleteId]);
  const [athlete] = await tx.query<{ connected_at: Date }>(
    'SELECT connected_at FROM athlete WHERE athlete_id = $1 FOR KEY SHARE',
    [athleteId],
  );
  return athlete?.connected_at;
}

/** Looks listed activities up, each one in the answer under its id. */
export async function findListed(tx: Queryable, activityIds: readonly Int64[]): Promise<Map<Int64, KnownActivity>> {
  const rows = await tx.query<KnownActivity>(FIND_LISTED, [activityIds]);
  return new Map(rows.map((row) => [row.activityId, row]));
}

// What a webhook or an operator requested, or what was stored before, a sweep tries once itself. A refusal is the
// athlete's, and over when they reconnect.
const FIND_LISTED = `
  SELECT l.activity_id AS "activityId", t.activity_id IS NOT NULL AS tombstoned,
    j.id IS NOT NULL AS requested, j.id IS NOT NULL AND j.outcome IS NULL AS open,
    coalesce(j.reason = 'polling' AND NOT j.force AND j.outcome IN ('notFound', 'exhausted')
      AND j.requested_at > sync_now() - interval '${ASK_AGAIN_AFTER}', false) AS unfetchable,
    a.activity_id IS NOT NULL AS stored, a.name, a.sport_type AS "sportType", a.start_date AS "startDate", a.distance_m AS "distanceM",
    a.moving_time_s AS "movingTimeS", a.elapsed_time_s AS "elapsedTimeS", a.private, a.fetched_at AS "fetchedAt"
  FROM unnest($1::bigint[]) AS l (activity_id)
  LEFT JOIN activity a ON a.activity_id = l.activity_id
  LEFT JOIN activity_tombstone t ON t.activity_id = l.activity_id
  LEFT JOIN activity_fetch_job j ON j.activity_id = l.activity_id`;
