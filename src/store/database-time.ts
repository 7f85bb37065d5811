import type { Queryable } from '../infra/database.ts';

/** The database's time, by which every wait and age is measured. */
export async function databaseTime(database: Queryable): Promise<Date> {
  const [row] = await database.query<{ now: Date }>('SELECT sync_now() AS now', []);
  return (row as { now: Date }).now;
}
