import type { PgBoss } from 'pg-boss';
import type { Clock } from '../domain/clock.ts';
import { type SyncDependencies, syncAthlete, syncLater } from '../flows/sync-athlete.ts';
import { clearCancelled, countFetched } from '../flows/sync-count.ts';
import type { Config } from '../infra/config.ts';
import { isUnavailable } from '../infra/database-errors.ts';
import type { Logger } from '../infra/logger.ts';
import type { Metrics } from '../infra/metrics.ts';
import type { NotifyHub } from '../infra/notify-hub.ts';
import { claimSyncStep, putOffSync, SyncLostError, type SyncStep } from '../store/sync-steps.ts';
import { WorkerLoop } from './worker-loop.ts';

const COMPONENT = 'sync';
// How long this process may sleep without a look: another replica may have died.
const LOOK_MS = 10_000;
const MIN_LEASE_MS = 1000;
// One page takes up to two calls and a token refresh.
const CALLS_OF_A_STEP = 3;

export type SyncWorkerDependencies = SyncDependencies & {
  boss: PgBoss;
  clock: Clock;
  config: Config;
  hub: NotifyHub;
  logger: Logger;
  metrics: Metrics;
};

/**
 * Carries out manual syncs, one step at a time: reads a page, counts what was fetched, or removes what a
 * cancelled sync queued. Syncs take turns.
 */
export class SyncWorker {
  readonly #deps: SyncWorkerDependencies;
  readonly #loop: WorkerLoop<SyncStep>;
  #unsubscribe: (() => void)[] = [];

  constructor(deps: SyncWorkerDependencies) {
    this.#deps = deps;
    const leaseMs = Math.max(MIN_LEASE_MS, CALLS_OF_A_STEP * deps.config.FETCH_TIMEOUT_MS);
    this.#loop = new WorkerLoop<SyncStep>({
      name: COMPONENT,
      slots: 1,
      pollIntervalMs: LOOK_MS,
      claim: async () => {
        const claim = await claimSyncStep(deps.database, leaseMs);
        return 'step' in claim ? { job: claim.step } : claim;
      },
      run: (step, signal) => this.#run(step, signal),
      clock: deps.clock,
      logger: deps.logger,
      metrics: deps.metrics,
    });
  }

  start(): void {
    const { hub } = this.#deps;
    this.#unsubscribe = [hub.on('sync', () => this.#loop.wake()), hub.on('budget', () => this.#loop.wake())];
    this.#loop.start();
  }

  async stop(graceMs: number): Promise<void> {
    for (const unsubscribe of this.#unsubscribe.splice(0)) unsubscribe();
    await this.#loop.stop(graceMs);
  }

  async #run(step: SyncStep, signal: AbortSignal): Promise<void> {
    const { database, boss, logger, metrics } = this.#deps;
    const fields = { component: COMPONENT, syncId: step.syncId };
    try {
      if (step.kind === 'page') await syncAthlete(this.#deps, step, signal);
      else if (step.kind === 'clear') await clearCancelled(database, boss, step);
      else {
        const end = await countFetched(database, step);
        if (end) logger.log(end === 'failed' ? 'warn' : 'info', `manual sync ${end}`, fields);
      }
    } catch (error) {
      const { message } = error as Error;
      const lost = error instanceof SyncLostError;
      if (lost) logger.info('a step of a sync was dropped', { ...fields, error: message });
      else if (!signal.aborted) {
        if (!isUnavailable(error)) metrics.errors.inc({ component: COMPONENT });
        logger.warn('a step of a sync failed; it is done again', { ...fields, error: message });
      }
      // What is another's by now stays theirs.
      const handBack =
        step.kind === 'page' && !lost && !signal.aborted
          ? syncLater(this.#deps, step, message)
          : putOffSync(database, step);
      await handBack.catch((problem: Error) =>
        logger.warn('a step of a sync could not be handed back; its claim runs out by itself', {
          ...fields,
          error: problem.message,
        }),
      );
    }
  }
}
