import type { Clock } from '../domain/clock.ts';
import { checkWalk, type WalkEnd } from '../flows/check-walk.ts';
import { componentOf, retryPage, type WalkDependencies, walkList } from '../flows/walk-list.ts';
import type { Config } from '../infra/config.ts';
import { isUnavailable } from '../infra/database-errors.ts';
import type { NotifyHub } from '../infra/notify-hub.ts';
import { claimWalkStep, releaseWalk, WalkLostError, type WalkStep } from '../store/list-walks.ts';
import { WorkerLoop } from './worker-loop.ts';

// How long this process may sleep between checks: another replica may have died.
const LOOK_MS = 10_000;
const MIN_LEASE_MS = 1000;
// One page takes up to two calls and a token refresh.
const CALLS_OF_A_STEP = 3;

export type ListWorkerDependencies = WalkDependencies & {
  clock: Clock;
  config: Config;
  hub: NotifyHub;
  /** Whether this process polls as well, where automatic sync is enabled. */
  polls: boolean;
};

/**
 * Reads athletes' lists, one step at a time: manual syncs, and the polling sweeps that find once an interval what
 * webhooks missed. The database knows how far each walk came and when the last sweep finished, so neither a
 * restart nor another replica changes the rhythm.
 */
export class ListWorker {
  readonly #deps: ListWorkerDependencies;
  readonly #loop: WorkerLoop<WalkStep>;
  #unsubscribe: (() => void)[] = [];

  constructor(deps: ListWorkerDependencies) {
    const { config, polls } = deps;
    this.#deps = deps;
    const options = {
      sweepEveryMs: polls && config.PROVIDER_AUTO_SYNC_ENABLED ? config.PROVIDER_WORKER_INTERVAL_MS : undefined,
      leaseMs: Math.max(MIN_LEASE_MS, CALLS_OF_A_STEP * config.FETCH_TIMEOUT_MS),
    };
    this.#loop = new WorkerLoop<WalkStep>({
      name: 'list',
      // A slow list delays either the sweep or a manual sync, not both.
      slots: options.sweepEveryMs === undefined ? 1 : 2,
      pollIntervalMs: LOOK_MS,
      claim: async () => {
        const claim = await claimWalkStep(deps.database, options);
        return 'step' in claim ? { jobs: [claim.step] } : { jobs: [], ...claim };
      },
      run: (step, signal) => this.#run(step, signal),
      clock: deps.clock,
      logger: deps.logger,
      metrics: deps.metrics,
    });
  }

  start(): void {
    const { config, hub, logger, polls, stopAfter } = this.#deps;
    const { PROVIDER_AUTO_SYNC_ENABLED: enabled, PROVIDER_WORKER_INTERVAL_MS: intervalMs } = config;
    const message = enabled
      ? `polling sync worker started, every ${intervalMs} ms, stop-after ${stopAfter}`
      : `polling sync worker is disabled by PROVIDER_AUTO_SYNC_ENABLED (stop-after ${stopAfter})`;
    if (polls) logger.info(message, { component: 'polling', enabled, intervalMs, stopAfter });
    this.#unsubscribe = (['polling', 'sync', 'budget'] as const).map((topic) => hub.on(topic, () => this.#loop.wake()));
    this.#loop.start();
  }

  async stop(graceMs: number): Promise<void> {
    for (const unsubscribe of this.#unsubscribe.splice(0)) unsubscribe();
    await this.#loop.stop(graceMs);
  }

  async #run(step: WalkStep, signal: AbortSignal): Promise<void> {
    const { database, boss, logger, metrics } = this.#deps;
    const component = componentOf(step);
    // Without the athlete's id: they may have been erased.
    const fields = { component, walkId: step.walkId };
    try {
      if (step.step === 'page') await walkList(this.#deps, step, signal);
      else this.#report(step, await checkWalk(database, boss, step));
    } catch (error) {
      const { message } = error as Error;
      const isLost = error instanceof WalkLostError;
      if (isLost) logger.info('claim lost, result discarded', { ...fields, error: message });
      else if (!signal.aborted) {
        if (!isUnavailable(error)) metrics.errors.inc({ component });
        logger.warn('step of a walk failed, retrying', { ...fields, error: message });
      }
      const handBack =
        step.step === 'page' && !isLost && !signal.aborted
          ? retryPage(this.#deps, step, message)
          : releaseWalk(database, step);
      await handBack.catch((problem: Error) =>
        logger.warn('walk not released, its lease will expire', { ...fields, error: problem.message }),
      );
    }
  }

  #report({ walkId }: WalkStep, end: WalkEnd): void {
    const { logger, metrics } = this.#deps;
    if (!end) return;
    if ('sync' in end) {
      const level = end.sync === 'failed' ? 'warn' : 'info';
      logger.log(level, `manual sync ${end.sync}`, { component: 'sync', syncId: walkId });
      return;
    }
    const { finishedAt, tookMs, ...sweep } = end.sweep;
    // Giving up on half of the athletes says more about the provider or the network than about athletes.
    const result = sweep.failed > 0 && sweep.failed * 2 >= sweep.athletes ? 'failed' : 'finished';
    metrics.pollingSweeps.inc({ result });
    metrics.pollingLastFinished.set(finishedAt.getTime() / 1000);
    logger.log(result === 'failed' ? 'warn' : 'info', `polling sweep ${result}`, {
      component: 'polling',
      ...sweep,
      tookMs: Math.round(tookMs),
    });
  }
}
