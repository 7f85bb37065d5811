import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { PgBoss } from 'pg-boss';
import type { Database } from '../infra/database.ts';
import { isDatabaseAway, isLockTimeout } from '../infra/database-errors.ts';
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

// A statement that waits for a lock does not see that its connection broke: it may claim later still. Nobody keeps a
// lock for longer than this (see openDatabase).
const LOOK_FOR_MS = 60_000;
const LOOK_EVERY_MS = 2000;

/**
 * Claims whose answers were lost with the connection: they may have committed, and claimed jobs that nobody
 * runs. Their jobs are put back as soon as the database is back, instead of when they count as stale.
 */
export class LostClaims {
  readonly #deps: LostClaimsDependencies;
  /** When each was lost, by performance.now(). */
  readonly #marks = new Map<string, number>();
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
      // A lock timeout is the server's own word that nothing was claimed.
      if (isDatabaseAway(error) && !isLockTimeout(error) && !this.#abort.signal.aborted) {
        this.#marks.set(mark, performance.now());
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
    const { signal } = this.#abort;
    try {
      while (this.#marks.size > 0) {
        const done: string[] = [];
        const putBack = await outlastDatabase(
          () => {
            // Read anew in each try: while the database is away, more are lost.
            const marks = [...this.#marks];
            done.splice(0, done.length, ...marks.filter(([, lostAt]) => isOver(lostAt)).map(([mark]) => mark));
            return putBackLostRuns(
              database,
              boss,
              marks.map(([mark]) => mark),
            );
          },
          { until: performance.now() + staleAfterMs, signal },
        );
        for (const mark of done) this.#marks.delete(mark);
        if (putBack > 0) {
          logger.warn('jobs put back whose claims were lost with the connection', {
            component: 'fetch',
            jobs: putBack,
          });
          onPutBack();
        }
        if (this.#marks.size > 0) await delay(LOOK_EVERY_MS, undefined, { signal });
      }
    } catch (error) {
      this.#marks.clear();
      if (signal.aborted) return; // the process stops
      logger.warn('claims were lost with the connection; stale recovery will find their jobs', {
        component: 'fetch',
        error: (error as Error).message,
      });
    } finally {
      this.#recovery = undefined;
    }
  }
}

function isOver(lostAt: number): boolean {
  return performance.now() - lostAt > LOOK_FOR_MS;
}
