import type { PgBoss } from 'pg-boss';
import type { Database } from '../../src/infra/database.ts';
import { createSilentLogger } from '../../src/infra/logger.ts';
import { claimRun, type Run } from '../../src/queue/claim.ts';
import { type Completer, createCompleter } from '../../src/queue/completer.ts';
import { createRescueRuns, type RescueRuns } from '../../src/queue/rescue.ts';

/** A process that a test plays: no connection and no lock belong to it. */
export const SOME_PROCESS = 900_001;

/** The backoff of a retry, in milliseconds. */
export const BACKOFF_MS = 60_000;

/** Claims, settles and rescues as a fetch worker does, when the test says so. No cooldown. */
export function playWorker(service: { database: Database; boss: PgBoss }): {
  claim: (options?: { processId?: number; holdMs?: number }) => Promise<Run>;
  completer: Completer;
  /** Rescues the jobs of these dead processes, and, with `stale`, all that run. */
  rescue: (options: { dead?: number[]; stale?: true }) => ReturnType<RescueRuns>;
} {
  const { database, boss } = service;
  const logger = createSilentLogger();
  const completer = createCompleter({ database, boss, logger, cooldownMs: 0, backoffMs: () => BACKOFF_MS });
  return {
    claim: async ({ processId = SOME_PROCESS, holdMs = 0 } = {}) => {
      const { run } = await claimRun(database, boss, { processId, holdMs });
      if (!run) throw new Error('no job can be claimed');
      return run;
    },
    completer,
    rescue: ({ dead = [], stale }) =>
      createRescueRuns({
        database,
        completer,
        logger,
        staleAfterMs: stale ? 0 : 3_600_000,
        processId: () => undefined,
        findDead: async (ids) => ids.filter((id) => dead.includes(id)),
        inHand: () => new Set(),
      })(),
  };
}
