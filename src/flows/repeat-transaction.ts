import type { Database, Queryable } from '../infra/database.ts';

const TRIES = 5;
// Serialization failure and deadlock: another transaction was in the way, and the same again succeeds.
const TRY_AGAIN = new Set(['40001', '40P01']);

/** Runs `work` in a transaction, and again when another transaction was in the way. */
export async function repeatTransaction<T>(database: Database, work: (tx: Queryable) => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await database.transaction(work);
    } catch (error) {
      if (attempt === TRIES || !TRY_AGAIN.has(String((error as { code?: unknown }).code))) throw error;
    }
  }
}
