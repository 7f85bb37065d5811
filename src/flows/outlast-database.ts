import { setTimeout as delay } from 'node:timers/promises';
import { isDatabaseAway } from '../infra/database-errors.ts';

const FIRST_WAIT_MS = 100;
const LONGEST_WAIT_MS = 2000;

/**
 * Does `work`, and again for as long as the database is away: for what would be lost otherwise. The answer to
 * a commit may have been lost, so `work` must notice what an earlier try has done.
 * @param options.until by performance.now(); no try begins later
 * @param options.signal once aborted, what fails is not tried again
 * @param options.onAway hears of the first error
 * @throws the last error, or the first that does not say that the database is away
 */
export async function outlastDatabase<T>(
  work: () => Promise<T>,
  options: { until: number; signal?: AbortSignal; onAway?: (error: Error) => void },
): Promise<T> {
  const { until, signal, onAway } = options;
  for (let waitMs = FIRST_WAIT_MS; ; waitMs = Math.min(2 * waitMs, LONGEST_WAIT_MS)) {
    try {
      return await work();
    } catch (error) {
      if (!isDatabaseAway(error) || signal?.aborted || performance.now() + waitMs > until) throw error;
      if (waitMs === FIRST_WAIT_MS) onAway?.(error);
      await delay(waitMs, undefined, { signal }).catch(() => Promise.reject(error));
    }
  }
}
