import type { PgBoss } from 'pg-boss';
import type { Database } from '../infra/database.ts';
import { isUnstorable } from '../infra/database-errors.ts';
import { LOCK_ALONE_MS, LOCK_MS, retryWhileUnavailable } from '../infra/database-policy.ts';
import type { Logger } from '../infra/logger.ts';
import { createBatcher } from './batcher.ts';
import type { RunResult, Settlement } from './settlement.ts';
import { type ClaimedRun, writeSettlements } from './write-settlements.ts';

const MAX_BATCH = 50;

/** Writes the settlements of runs. */
export interface Completer {
  /**
   * Writes the end of a run; resolves when it is durable.
   * @param options.until by performance.now(); while the database is unavailable no attempt starts later
   * @param options.signal once aborted (the process stops), failures are not retried
   * @throws ClaimLostError when the run no longer holds its job; nothing is written
   */
  settle(run: ClaimedRun, settlement: Settlement, options: { until: number; signal?: AbortSignal }): Promise<RunResult>;
}

/**
 * Creates the completer: settlements that are ready together share one transaction. If that fails, each is written
 * alone, so that a locked athlete or an answer that cannot be stored delays no other; one that finds the database
 * unavailable is kept and retried.
 */
export function createCompleter(deps: {
  database: Database;
  boss: PgBoss;
  logger: Logger;
  cooldownMs: number;
  backoffMs: (attempts: number) => number;
}): Completer {
  const { database, logger } = deps;
  const write = (batch: readonly Settled[], lockMs: number) =>
    database.transaction((tx) => writeSettlements(deps, tx, batch), { lockMs });
  const writeBatch = createBatcher<Settled, RunResult>({
    maxBatch: MAX_BATCH,
    keyOf: ({ run }) => run.athleteId,
    run: (batch) => write(batch, LOCK_MS),
  });

  const writeAlone = async (item: Settled): Promise<RunResult> => {
    const [result] = await write([item], LOCK_ALONE_MS);
    return result as RunResult;
  };

  const settleAlone = async (item: Settled, until: number, signal: AbortSignal | undefined): Promise<RunResult> => {
    const { run, settlement } = item;
    try {
      return await retryWhileUnavailable(() => writeAlone(item), {
        until,
        ...(signal ? { signal } : {}),
        onUnavailable: (error) =>
          logger.warn('settlement kept: database unavailable or athlete locked', {
            component: 'fetch',
            jobId: run.jobId,
            error: error.message,
          }),
      });
    } catch (error) {
      if (!isUnstorable(error)) throw error;
      const why = `The answer cannot be stored: ${error.message}`;
      const { lastCall = 'none' } = settlement;
      return writeAlone({ run, settlement: { lastCall, kind: 'ended', outcome: 'unusable', error: why } });
    }
  };

  return {
    // Another run may have made the batch fail: written alone, a failure is the run's own.
    settle: (run, settlement, { until, signal }) =>
      writeBatch({ run, settlement }).catch(() => settleAlone({ run, settlement }, until, signal)),
  };
}

interface Settled {
  run: ClaimedRun;
  settlement: Settlement;
}
