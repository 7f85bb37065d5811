import { setTimeout as delay } from 'node:timers/promises';
import { isConflict, isUnavailable } from './database-errors.ts';

/*
 * The policy for a database that fails or is slow: every limit and every retry. ARCHITECTURE.md shows it as a table.
 */

/** For every connection. */
export const CONNECT_MS = 5000;
export const STATEMENT_MS = 30_000;
/** The server ends an idle transaction: its client may have vanished, and others wait for its locks. */
export const IDLE_TRANSACTION_MS = 60_000;
/** A claim holds the budget's lock at its end: a process paused there must not block the others. */
export const IDLE_CLAIM_MS = 2000;

/** How long a transaction of the queue waits for a row that another one has locked, before it fails as a whole. */
export const LOCK_MS = 500;
/** The same for a part of a failed batch: only the locked part fails then. */
export const LOCK_ALONE_MS = 1000;

/** A delivery is answered within this time, whatever the database does: the provider allows 2 s. */
export const ANSWER_MS = 1400;
/** No step of a delivery waits longer than its answer may take. */
export const INTAKE_STATEMENT_MS = 1300;
export const INTAKE_LOCK_MS = 200;

/** A transaction that loses to another one (serialization failure, deadlock) is repeated at once. */
const CONFLICT_TRIES = 5;
const FIRST_WAIT_MS = 100;
const LONGEST_WAIT_MS = 2000;

/** Repeats `run` while it loses to another transaction. @param tries 1 for work that must not run twice */
export async function repeatOnConflict<T>(run: () => Promise<T>, tries = CONFLICT_TRIES): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await run();
    } catch (error) {
      if (attempt >= tries || !isConflict(error)) throw error;
    }
  }
}

/**
 * Repeats `work` while the database is unavailable, after 100 ms, 200 ms … 2 s: for what would otherwise be lost, such as
 * the answer to a spent call. The answer to a commit may be lost, so `work` must detect what an
 * earlier attempt has done.
 * @param options.until by performance.now(); no attempt starts later
 * @param options.signal once aborted, failures are not retried
 * @param options.onUnavailable receives the first error
 * @throws the last error, or the first that does not say that the database is unavailable
 */
export async function retryWhileUnavailable<T>(
  work: () => Promise<T>,
  options: { until: number; signal?: AbortSignal; onUnavailable?: (error: Error) => void },
): Promise<T> {
  const { until, signal, onUnavailable } = options;
  for (let waitMs = FIRST_WAIT_MS; ; waitMs = Math.min(2 * waitMs, LONGEST_WAIT_MS)) {
    try {
      return await work();
    } catch (error) {
      if (!isUnavailable(error) || signal?.aborted || performance.now() + waitMs > until) throw error;
      if (waitMs === FIRST_WAIT_MS) onUnavailable?.(error);
      await delay(waitMs, undefined, { signal }).catch(() => Promise.reject(error));
    }
  }
}
