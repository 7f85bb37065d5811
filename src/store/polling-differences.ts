import type { Int64 } from '../domain/int64.ts';
import type { Queryable } from '../infra/database.ts';

/** Takes the place of a summary for an activity that the list lacked. */
export const NOT_LISTED = 'not listed';

/**
 * A difference that persists after a fetch, and a listed activity that cannot be fetched, are requested again after a
 * while, not in every sweep.
 */
export const ASK_AGAIN_AFTER = '7 days';

/** A difference between the provider's list and what is stored. */
export interface Difference {
  activityId: Int64;
  /** What the list said, in one line. */
  summary: string;
}

/**
 * Records differences. @returns those worth a fetch: new ones, and ones that were not fetched since they
 * were noted, or long ago
 */
export async function noteDifferences(tx: Queryable, differences: readonly Difference[]): Promise<Int64[]> {
  if (differences.length === 0) return [];
  const rows = await tx.query<{ activity_id: string }>(
    `INSERT INTO polling_difference AS d (activity_id, summary, asked_at)
     SELECT n.activity_id, n.summary, sync_now() FROM unnest($1::bigint[], $2::text[]) AS n (activity_id, summary)
     ON CONFLICT (activity_id) DO UPDATE SET summary = excluded.summary, asked_at = excluded.asked_at
     WHERE d.summary <> excluded.summary OR d.asked_at < sync_now() - interval '${ASK_AGAIN_AFTER}'
       OR d.asked_at > (SELECT a.fetched_at FROM activity a WHERE a.activity_id = d.activity_id)
     RETURNING activity_id`,
    [differences.map(({ activityId }) => activityId), differences.map(({ summary }) => summary)],
  );
  return rows.map((row) => row.activity_id);
}

/**
 * Stored activities of the listed span that the list lacks: no request is open for them, and they were
 * stored before the list was read.
 * @param span start dates: from (exclusive; null: no lower bound) to (exclusive), epoch seconds
 */
export async function findUnlisted(
  tx: Queryable,
  athleteId: Int64,
  span: { fromS: number | null; beforeS: number; storedBefore: Date },
  listed: readonly Int64[],
): Promise<Int64[]> {
  const rows = await tx.query<{ activity_id: string }>(
    `SELECT a.activity_id FROM activity a
     WHERE a.athlete_id = $1 AND a.start_date < to_timestamp($3::float8)
       AND ($2::float8 IS NULL OR a.start_date >= to_timestamp($2::float8 + 1))
       AND a.fetched_at < $4 AND a.activity_id <> ALL ($5::bigint[])
       AND NOT EXISTS (SELECT FROM activity_fetch_job j WHERE j.activity_id = a.activity_id AND j.outcome IS NULL)
     ORDER BY a.start_date DESC`,
    [athleteId, span.fromS, span.beforeS, span.storedBefore, listed],
  );
  return rows.map((row) => row.activity_id);
}

/** Whether an activity is stored that started before then. */
export async function hasOlderActivity(tx: Queryable, athleteId: Int64, before: Date): Promise<boolean> {
  const rows = await tx.query('SELECT FROM activity WHERE athlete_id = $1 AND start_date < $2 LIMIT 1', [
    athleteId,
    before,
  ]);
  return rows.length > 0;
}
