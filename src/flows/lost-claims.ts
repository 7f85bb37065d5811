import { randomUUID } from 'node:crypto';
import type { PgBoss } from 'pg-boss';
import type { Database } from '../infra/database.ts';
import { isDatabaseAway } from '../infra/database-errors.ts';
import type { Logger } from '../infra/logger.ts';
import type { MarkClaims } from '../queue/claim.ts';
import { putBackLostRuns } from '../queue/rescue.ts';
import { outlastDatabase } from './outlast-database.ts';

interface LostClaimsDependencies {
  database: Database;
  boss: PgBoss;
  logger: Logger;
  staleAfterMs: number;
  /** Jobs were put back, and can be claimed. */
  onPutBack: () => void;
}

/**
 * Claims whose answers were lost with the connection: they may have committed, and claimed jobs that nobody
 * runs. Their jobs are put back as soon as the database is back, instead of when they count as stale.
 */
export class LostClaims {
  readonly #deps: LostClaimsDependencies;
  readonly #marks = new Set<string>();
  readonly #abort = new AbortController();
  #recovery: Promise<void> | undefined;

  constructor(deps: LostClaimsDependencies) {
    this.#deps = deps;
  }

  readonly markClaims: MarkClaims = async (claim) => {
    const mark = randomUUID();
    try {
      return await claim(mark);
    } catch (error) {
      if (isDatabaseAway(error) && !this.#abort.signal.aborted) {
        this.#marks.add(mark);
        this.#recovery ??= this.#recover();
      }
      throw error;
    }
  };

  /** Gives up what it could not put back yet; stale recovery will find it. Afterwards nothing is begun. */
  async stop(): Promise<void> {
    this.#abort.abort();
    await this.#recovery;
  }

  async #recover(): Promise<void> {
    const { database, boss, logger, staleAfterMs, onPutBack } = this.#deps;
    const until = performance.now() + staleAfterMs;
    try {
      while (this.#marks.size > 0) {
        // Read anew in each try: while the database is away, more are lost.
        const putBack = await outlastDatabase(
          async () => {
            const marks = [...this.#marks];
            const jobs = await putBackLostRuns(database, boss, marks);
            for (const mark of marks) this.#marks.delete(mark);
            return jobs;
          },
          { until, signal: this.#abort.signal },
        );
        if (putBack === 0) continue;
        logger.warn('jobs put back whose claims were lost with the connection', { component: 'fetch', jobs: putBack });
        onPutBack();
      }
    } catch (error) {
      this.#marks.clear();
      logger.warn('claims were lost with the connection; stale recovery will find their jobs', {
        component: 'fetch',
        error: (error as Error).message,
      });
    } finally {
      this.#recovery = undefined;
    }
  }
}
