import type { Queryable } from '../infra/database.ts';

/** An increment of a measure; `bucket` is the upper bound for a histogram's measure, else 0. */
export interface HistoryCount {
  measure: string;
  bucket: number;
  n: number;
}

/** Adds to the current minute. */
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

/** What has happened since, in steps of `stepS` seconds, oldest first. */
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

/** How the provider answered the runs of the last five minutes. */
export interface RecentFetches {
  /** Runs to which the provider gave a proper answer: an activity, or that there is none. */
  succeeded: number;
  /** Runs that it refused, failed or did not answer properly. */
  failed: number;
  /** The first failing minute without five minutes free of failures after it; null when none failed lately. */
  failingSince: Date | null;
}

/** Counts the runs of the last five minutes by how the provider answered them. */
export async function readRecentFetches(database: Queryable): Promise<RecentFetches> {
  const [row] = await database.query<RecentFetches>(RECENT_FETCHES, []);
  return row as RecentFetches;
}

const SUCCEEDED = `ARRAY['finished:stored', 'finished:notFound', 'finished:refuted']`;
const FAILED = `ARRAY['finished:retry', 'finished:exhausted', 'finished:unusable', 'finished:unauthorized', 'finished:forbidden']`;
const RECENT_FETCHES = `
  WITH recent AS (
    SELECT coalesce(sum(n) FILTER (WHERE measure = ANY (${SUCCEEDED})), 0)::int AS succeeded,
      coalesce(sum(n) FILTER (WHERE measure = ANY (${FAILED})), 0)::int AS failed
    FROM history WHERE minute > sync_now() - interval '5 min'
  ), failing AS (
    SELECT DISTINCT minute FROM history WHERE measure = ANY (${FAILED}) AND minute > sync_now() - interval '1 day'
  ), spells AS (
    SELECT minute, minute - lag(minute) OVER (ORDER BY minute) AS quiet FROM failing
  )
  SELECT succeeded, failed,
    CASE WHEN failed > 0 THEN (SELECT max(minute) FROM spells WHERE quiet IS NULL OR quiet > interval '5 min') END AS "failingSince"
  FROM recent`;
