import type { Queryable } from '../infra/database.ts';

/** When the polling sweep under way began (null: none is), and when the last one finished (null: never). */
export async function readSweepTimes(
  database: Queryable,
): Promise<{ startedAt: Date | null; finishedAt: Date | null }> {
  const [row] = await database.query<{ startedAt: Date | null; finishedAt: Date | null }>(
    `SELECT started_at AS "startedAt", CASE WHEN finished_at > '-infinity' THEN finished_at END AS "finishedAt" FROM polling_sweep`,
    [],
  );
  return row ?? { startedAt: null, finishedAt: null };
}
