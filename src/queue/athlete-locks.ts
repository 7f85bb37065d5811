import type { Int64 } from '../domain/int64.ts';
import type { Queryable } from '../infra/database.ts';

/**
 * Locks athletes until the transaction ends, creating the rows that are missing: their jobs are requested, claimed,
 * settled and erased by one transaction at a time. Locks are taken in one order everywhere: athletes by id, then
 * requests, their jobs, activities, and the jobs of their thumbnails.
 */
export async function lockAthletes(tx: Queryable, athleteIds: readonly Int64[]): Promise<void> {
  const ids = [...new Set(athleteIds)];
  // An erasure may remove a row between the two statements.
  while ((await lockKnownAthletes(tx, ids)) < ids.length) {
    await tx.query(
      'INSERT INTO athlete_schedule (athlete_id) SELECT a FROM unnest($1::bigint[]) a ORDER BY a ON CONFLICT DO NOTHING',
      [ids],
    );
  }
}

/** The same for the athletes that have a row; one who was erased has none, and no jobs. @returns how many */
export async function lockKnownAthletes(tx: Queryable, athleteIds: readonly Int64[]): Promise<number> {
  const rows = await tx.query(
    'SELECT athlete_id FROM athlete_schedule WHERE athlete_id = ANY ($1::bigint[]) ORDER BY athlete_id FOR UPDATE',
    [athleteIds],
  );
  return rows.length;
}
