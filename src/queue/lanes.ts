import type { Int64 } from '../domain/int64.ts';
import type { Aspect, Reason } from '../domain/job.ts';
import type { Queryable } from '../infra/database.ts';

export type LaneReason = Reason | 'delete';

/** The lane of an athlete that a request waits in: a deletion that its sender signed needs no call. */
export function laneReasonOf(request: { aspect: Aspect; signed: boolean; reason: Reason }): LaneReason {
  return request.aspect === 'delete' && request.signed ? 'delete' : request.reason;
}

/**
 * Wakes lanes of locked athletes at a time from now, creating the missing ones.
 * @param places one for each job; equal ones share a lane
 * @returns the lanes in the order of the places
 */
export async function wakeLanes(
  tx: Queryable,
  places: readonly { athleteId: Int64; lane: LaneReason }[],
  delayMs = 0,
): Promise<number[]> {
  const keyOf = (athleteId: Int64, lane: string) => `${athleteId} ${lane}`;
  const unique = [...new Map(places.map((place) => [keyOf(place.athleteId, place.lane), place])).values()];
  const rows = await tx.query<{ lane: number; athlete_id: string; reason: string }>(
    `INSERT INTO lane AS l (athlete_id, reason, due_at)
     SELECT p.athlete_id, p.reason, sync_now() + $3 * interval '1 ms' FROM unnest($1::bigint[], $2::text[]) AS p (athlete_id, reason)
     ORDER BY p.athlete_id, p.reason
     ON CONFLICT (athlete_id, reason) DO UPDATE SET due_at = least(l.due_at, excluded.due_at)
     RETURNING l.lane, l.athlete_id, l.reason`,
    [unique.map(({ athleteId }) => athleteId), unique.map(({ lane }) => lane), delayMs],
  );
  const lanes = new Map(rows.map((row) => [keyOf(row.athlete_id, row.reason), row.lane]));
  return places.map((place) => lanes.get(keyOf(place.athleteId, place.lane)) as number);
}

/** A lane that was due and had nothing to claim: due again with its next job, or empty. */
export async function restLane(tx: Queryable, lane: number): Promise<void> {
  // A job that was due but could not be claimed is locked at the moment: others come first.
  await tx.query(
    `UPDATE lane SET due_at = w.due_at
     FROM (SELECT CASE WHEN min(start_after) <= sync_now() THEN sync_clock() + interval '25 ms' ELSE min(start_after) END AS due_at
           FROM waiting_in_lane($1)) w
     WHERE lane = $1`,
    [lane],
  );
}
