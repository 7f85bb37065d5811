import type { Queryable } from '../infra/database.ts';

/** So many more of a measure; `bucket` is the upper bound for a histogram's measure, else 0. */
export interface HistoryCount {
  measure: string;
  bucket: number;
  n: number;
}

/** Adds to the running minute. */
export async function addToHistory(database: Queryable, counts: readonly HistoryCount[]): Promise<void> {
  if (counts.length === 0) return;
  await database.query(
    `INSERT INTO history AS h (minute, measure, bucket, n)
     SELECT date_trunc('minute', sync_now()), c.measure, c.bucket, c.n
     FROM unnest($1::text[], $2::float8[], $3::bigint[]) AS c (measure, bucket, n) ORDER BY 2, 3
     ON CONFLICT (minute, measure, bucket) DO UPDATE SET n = h.n + excluded.n`,
    [counts.map(({ measure }) => measure), counts.map(({ bucket }) => bucket), counts.map(({ n }) => n)],
  );
}

/** A sum over `stepS` seconds from `at` on. */
export type HistoryRow = HistoryCount & { at: Date };

/** What happened since, in steps of so many seconds, oldest first. */
export async function readHistory(database: Queryable, since: Date, stepS: number): Promise<HistoryRow[]> {
  return database.query<HistoryRow>(
    `SELECT date_bin($2 * interval '1 s', minute, 'epoch') AS at, measure, bucket, sum(n)::float8 AS n
     FROM history WHERE minute >= date_bin($2 * interval '1 s', $1::timestamptz, 'epoch') GROUP BY 1, 2, 3 ORDER BY 1`,
    [since, stepS],
  );
}

/** The sum of what happened since. */
export async function sumHistory(database: Queryable, since: Date): Promise<HistoryCount[]> {
  return database.query<HistoryCount>(
    'SELECT measure, bucket, sum(n)::float8 AS n FROM history WHERE minute >= $1 GROUP BY measure, bucket',
    [since],
  );
}

/**
 * The first minute in which a fetch failed for the provider's sake after the last one that succeeded;
 * null when the newest fetches succeed, or none was tried in the last day.
 */
export async function findFailingSince(database: Queryable): Promise<Date | null> {
  const [row] = await database.query<{ at: Date | null }>(
    `SELECT min(minute) AS at FROM history
     WHERE measure = 'finished:retry' AND minute > greatest(sync_now() - interval '1 day',
       (SELECT max(minute) FROM history WHERE measure = 'finished:stored' AND minute > sync_now() - interval '1 day'))`,
    [],
  );
  return row?.at ?? null;
}
