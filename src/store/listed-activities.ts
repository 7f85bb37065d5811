import type { Int64 } from '../domain/int64.ts';
import type { Queryable } from '../infra/database.ts';
import { ASK_AGAIN_AFTER } from './polling-differences.ts';

/** What is known of an activity that the provider lists. */
export interface KnownActivity {
  activityId: Int64;
  /** Deleted: an athlete's list may lag behind. */
  tombstoned: boolean;
  /** Undefined when no fetch was ever asked for, or its job is gone. */
  job:
    | {
        open: boolean;
        /** A sweep found it unknown and asked for it not long ago, and it could not be fetched. */
        unfetchable: boolean;
      }
    | undefined;
  stored:
    | {
        name: string;
        sportType: string;
        startDate: Date;
        distanceM: number;
        movingTimeS: number;
        elapsedTimeS: number;
        private: boolean;
        fetchedAt: Date;
      }
    | undefined;
}

/**
 * Keeps an athlete's claims, requests and erasure out until the transaction ends, so that what is read
 * after it still holds when fetches are asked for.
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
  const rows = await tx.query<ListedRow>(FIND_LISTED, [activityIds]);
  return new Map(rows.map((row) => [row.activity_id, toKnown(row)]));
}

// Where a webhook or somebody by hand asked, or for what was stored before, a sweep tries once itself. A refusal
// is the athlete's, and over when they connect again.
const UNFETCHABLE = `j.reason = 'polling' AND NOT j.force AND j.outcome IN ('notFound', 'exhausted')
      AND j.requested_at > sync_now() - interval '${ASK_AGAIN_AFTER}'`;

const FIND_LISTED = `
  SELECT l.activity_id, t.activity_id IS NOT NULL AS tombstoned,
    j.id IS NOT NULL AS requested, j.id IS NOT NULL AND j.outcome IS NULL AS open,
    coalesce(${UNFETCHABLE}, false) AS unfetchable,
    a.activity_id IS NOT NULL AS stored, a.name, a.sport_type, a.start_date, a.distance_m, a.moving_time_s, a.elapsed_time_s,
    a.private, a.fetched_at
  FROM unnest($1::bigint[]) AS l (activity_id)
  LEFT JOIN activity a ON a.activity_id = l.activity_id
  LEFT JOIN activity_tombstone t ON t.activity_id = l.activity_id
  LEFT JOIN activity_fetch_job j ON j.activity_id = l.activity_id`;

interface ListedRow {
  activity_id: string;
  tombstoned: boolean;
  requested: boolean;
  open: boolean;
  unfetchable: boolean;
  stored: boolean;
  name: string;
  sport_type: string;
  start_date: Date;
  distance_m: number;
  moving_time_s: number;
  elapsed_time_s: number;
  private: boolean;
  fetched_at: Date;
}

function toKnown(row: ListedRow): KnownActivity {
  return {
    activityId: row.activity_id,
    tombstoned: row.tombstoned,
    job: row.requested ? { open: row.open, unfetchable: row.unfetchable } : undefined,
    stored: row.stored
      ? {
          name: row.name,
          sportType: row.sport_type,
          startDate: row.start_date,
          distanceM: row.distance_m,
          movingTimeS: row.moving_time_s,
          elapsedTimeS: row.elapsed_time_s,
          private: row.private,
          fetchedAt: row.fetched_at,
        }
      : undefined,
  };
}
