import { randomUUID } from 'node:crypto';
import type { Clock } from '../domain/clock.ts';
import { REASONS, STATUSES } from '../domain/job.ts';
import type { Config } from '../infra/config.ts';
import type { Database } from '../infra/database.ts';
import type { Logger } from '../infra/logger.ts';
import type { Metrics } from '../infra/metrics.ts';
import type { Budget } from '../queue/budget.ts';
import { readThumbnailDelay } from '../queue/thumbnail-queue.ts';
import { countAthletes } from '../store/athlete-list.ts';
import { readBacklog } from '../store/delivery-log.ts';
import { countEndpoints } from '../store/endpoints.ts';
import { listPauses } from '../store/fetch-pauses.ts';
import { compactJobCounts, countJobsByReason } from '../store/job-counts.ts';
import { sumWaits, WAIT_CAUSES, type Waits } from '../store/job-waits.ts';
import { holdLease, releaseLease } from '../store/leases.ts';
import { readSweepTimes } from '../store/polling-sweeps.ts';
import { findLastReceived } from '../store/webhook-events.ts';
import { Repeater } from './repeater.ts';

const EVERY_MS = 10_000; // Prometheus scrapes every 15 s
const HELD_MS = 3 * EVERY_MS;

export interface MetricsCollectorOptions {
  database: Database;
  budget: Budget;
  readWaits: () => Promise<Waits>;
  config: Config;
  clock: Clock;
  logger: Logger;
  metrics: Metrics;
  /** False in processes that leave the queue's figures to others. */
  readsQueue: boolean;
}

/**
 * Keeps the gauges that are read from the database. One process reads the queue for all of them, so that
 * a sum over processes counts nothing twice; the others show no such figure at all.
 */
export class MetricsCollector {
  readonly #options: MetricsCollectorOptions;
  readonly #holder = randomUUID();
  readonly #repeater: Repeater;

  constructor(options: MetricsCollectorOptions) {
    this.#options = options;
    const { clock, config, logger, metrics } = options;
    clearQueueGauges(metrics);
    // Whatever the roles: if no process polls, the others show that one should.
    metrics.pollingInterval.set(config.PROVIDER_AUTO_SYNC_ENABLED ? config.PROVIDER_WORKER_INTERVAL_MS / 1000 : 0);
    this.#repeater = new Repeater({
      name: 'metrics collection',
      everyMs: EVERY_MS,
      run: () => this.#collect(),
      clock,
      logger,
    });
  }

  start(): void {
    this.#repeater.start();
  }

  /** Releases the lease, so that another process takes it over at once. */
  async stop(): Promise<void> {
    await this.#repeater.stop();
    if (!this.#options.readsQueue) return;
    await releaseLease(this.#options.database, 'metrics', this.#holder).catch((error: Error) =>
      this.#options.logger.warn('lease of the queue metrics not released, it will expire', {
        component: 'metrics',
        error: error.message,
      }),
    );
  }

  async #collect(): Promise<void> {
    const { database, metrics, readsQueue } = this.#options;
    const { totalCount, idleCount, waitingCount } = database.pool;
    metrics.dbPool.set({ state: 'total' }, totalCount);
    metrics.dbPool.set({ state: 'idle' }, idleCount);
    metrics.dbPool.set({ state: 'waiting' }, waitingCount);
    if (!readsQueue) return;
    try {
      if (await holdLease(database, 'metrics', this.#holder, HELD_MS)) await this.#readQueue();
      else clearQueueGauges(metrics);
    } catch (error) {
      // Old figures would suggest that nothing moves.
      clearQueueGauges(metrics);
      throw error;
    }
  }

  async #readQueue(): Promise<void> {
    const { database, budget, metrics, readWaits } = this.#options;
    await compactJobCounts(database);
    const counts = await countJobsByReason(database);
    for (const reason of REASONS)
      for (const status of STATUSES) metrics.jobs.set({ status, reason }, counts[reason][status]);

    const paused = (await listPauses(database)).map(({ reason }) => reason);
    for (const reason of ['all', ...REASONS] as const)
      metrics.fetchPaused.set({ reason }, paused.includes(reason) ? 1 : 0);

    const waits = await readWaits();
    for (const reason of REASONS) metrics.oldestDueJob.set({ reason }, waits[reason].oldestDueS);
    const causes = sumWaits(waits);
    for (const cause of WAIT_CAUSES) metrics.jobsWaiting.set({ cause }, causes[cause]);

    for (const [state, athletes] of Object.entries(await countAthletes(database)))
      metrics.athletes.set({ state }, athletes);

    const state = await budget.read();
    metrics.budgetCapacity.set(state.capacity);
    metrics.budgetConfigured.set(state.configuredCapacity);
    metrics.budgetUsed.set(state.used);
    metrics.budgetLeft.set(state.left);
    metrics.budgetBlockedUntil.set(secondsOf(state.blockedUntil));
    metrics.budgetDailyUsed.set(state.daily.used);
    metrics.budgetDailyLimit.set(state.daily.limit ?? 0);

    const lastReceived = await findLastReceived(database);
    if (lastReceived) metrics.webhookLastReceived.set(secondsOf(lastReceived));
    metrics.pollingLastFinished.set(secondsOf((await readSweepTimes(database)).finishedAt));
    metrics.oldestDueThumbnail.set(await readThumbnailDelay(database));

    const backlog = await readBacklog(database);
    metrics.deliveriesWaiting.set(backlog.waiting);
    metrics.oldestDueDelivery.set(backlog.oldestDueS);
    for (const [state, endpoints] of Object.entries(await countEndpoints(database)))
      metrics.endpoints.set({ state }, endpoints);
  }
}

function clearQueueGauges(metrics: Metrics): void {
  for (const gauge of [
    metrics.jobs,
    metrics.oldestDueJob,
    metrics.jobsWaiting,
    metrics.fetchPaused,
    metrics.athletes,
    metrics.endpoints,
  ])
    gauge.reset();
  for (const gauge of [
    metrics.deliveriesWaiting,
    metrics.oldestDueDelivery,
    metrics.budgetCapacity,
    metrics.budgetConfigured,
    metrics.budgetUsed,
    metrics.budgetLeft,
    metrics.budgetBlockedUntil,
    metrics.budgetDailyUsed,
    metrics.budgetDailyLimit,
    metrics.webhookLastReceived,
    metrics.oldestDueThumbnail,
  ])
    gauge.remove();
}

function secondsOf(at: Date | null): number {
  return (at?.getTime() ?? 0) / 1000;
}
