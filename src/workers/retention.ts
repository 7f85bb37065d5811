import { randomUUID } from 'node:crypto';
import type { PgBoss } from 'pg-boss';
import type { Clock } from '../domain/clock.ts';
import { deleteJobs } from '../flows/delete-jobs.ts';
import type { Database } from '../infra/database.ts';
import type { Logger } from '../infra/logger.ts';
import { deleteOldChanges } from '../store/changes.ts';
import { databaseTime } from '../store/database-time.ts';
import { deleteOldDeliveries } from '../store/delivery-log.ts';
import { holdLease, releaseLease } from '../store/leases.ts';
import { deleteOldRows, KEPT_FOR_A_TIME } from '../store/old-rows.ts';
import { Repeater } from './repeater.ts';

const COMPONENT = 'retention';
const EVERY_MS = 3_600_000;
const HELD_MS = 600_000;
const DAY_MS = 86_400_000;

interface RetentionOptions {
  database: Database;
  boss: PgBoss;
  clock: Clock;
  logger: Logger;
  days: number;
  /** For how long changes and their deliveries are kept. */
  changeDays: number;
}

/**
 * Removes what is older than the retention: finished jobs with their attempts, ledger entries, tombstones,
 * audit entries, bulk syncs that have ended, schedules of athletes without data, changes and their deliveries. Never an open job, whatever its
 * age. One process at a time, in small transactions.
 */
export class Retention {
  readonly #options: RetentionOptions;
  readonly #holder = randomUUID();
  readonly #stopping = new AbortController();
  readonly #repeater: Repeater;

  constructor(options: RetentionOptions) {
    this.#options = options;
    const { clock, logger } = options;
    this.#repeater = new Repeater({ name: COMPONENT, everyMs: EVERY_MS, run: () => this.#purge(), clock, logger });
  }

  start(): void {
    this.#repeater.start();
  }

  /** A running purge ends between two batches. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#repeater.stop();
  }

  async #purge(): Promise<void> {
    const { database, logger, days, changeDays } = this.#options;
    if (!(await holdLease(database, 'retention', this.#holder, HELD_MS))) return;
    const removed: Record<string, number> = {};
    const signal = this.#stopping.signal;
    for (const status of ['done', 'failed'] as const)
      removed[`${status} jobs`] = await deleteJobs(this.#options, { status, olderThanMs: days * DAY_MS }, { signal });
    const now = (await databaseTime(database)).getTime();
    const before = new Date(now - days * DAY_MS);
    for (const what of KEPT_FOR_A_TIME)
      removed[what] = await this.#purgeInBatches(() => deleteOldRows(database, what, before));
    const changesBefore = new Date(now - changeDays * DAY_MS);
    removed.changes = await this.#purgeInBatches(() => deleteOldChanges(database, changesBefore));
    removed.deliveries = await this.#purgeInBatches(() => deleteOldDeliveries(database, changesBefore));
    await releaseLease(database, 'retention', this.#holder);
    if (Object.values(removed).some((rows) => rows > 0))
      logger.info(`removed records older than ${days} days`, { component: COMPONENT, changeDays, ...removed });
  }

  async #purgeInBatches(deleteBatch: () => Promise<number>): Promise<number> {
    let rows = 0;
    for (let batch = 1; batch > 0 && !this.#stopping.signal.aborted; rows += batch) batch = await deleteBatch();
    return rows;
  }
}
