import type { Clock } from '../domain/clock.ts';
import { type PollDependencies, pollAthlete, pollLater } from '../flows/poll-athlete.ts';
import type { Config } from '../infra/config.ts';
import { isUnavailable } from '../infra/database-errors.ts';
import type { NotifyHub } from '../infra/notify-hub.ts';
import {
  claimSweepStep,
  findLastSweepEnd,
  putOffSweep,
  SweepLostError,
  type SweepStep,
  type SweepSummary,
} from '../store/polling-sweep.ts';
import { type Claimed, WorkerLoop } from './worker-loop.ts';

const COMPONENT = 'polling';
// How long this process may sleep without a look: another replica may have finished or died.
const LOOK_MS = 15_000;
const MIN_LEASE_MS = 1000;
// One page takes up to two calls and a token refresh.
const CALLS_OF_A_STEP = 3;

/**
 * The polling worker: reads every connected athlete's list once an interval, to find what webhooks missed.
 * The database knows when the last sweep finished and how far this one has come, so neither a restart nor
 * another replica changes the rhythm.
 */
export class PollingWorker {
  readonly #deps: PollDependencies & { clock: Clock; config: Config; hub: NotifyHub };
  readonly #loop: WorkerLoop<SweepStep>;
  #unsubscribe: (() => void)[] = [];

  constructor(deps: PollDependencies & { clock: Clock; config: Config; hub: NotifyHub }) {
    this.#deps = deps;
    this.#loop = new WorkerLoop<SweepStep>({
      name: COMPONENT,
      slots: 1,
      pollIntervalMs: LOOK_MS,
      claim: () => this.#claim(),
      run: (step, signal) => this.#run(step, signal),
      clock: deps.clock,
      logger: deps.logger,
      metrics: deps.metrics,
    });
  }

  start(): void {
    const { config, hub, logger, stopAfter } = this.#deps;
    const enabled = config.PROVIDER_AUTO_SYNC_ENABLED;
    logger.info(
      enabled
        ? `polling sync worker started, every ${config.PROVIDER_WORKER_INTERVAL_MS} ms, stop-after ${stopAfter}`
        : `polling sync worker is disabled by PROVIDER_AUTO_SYNC_ENABLED (stop-after ${stopAfter})`,
      { component: COMPONENT, enabled, intervalMs: config.PROVIDER_WORKER_INTERVAL_MS, stopAfter },
    );
    if (!enabled) return;
    this.#unsubscribe = [hub.on('polling', () => this.#loop.wake()), hub.on('budget', () => this.#loop.wake())];
    this.#loop.start();
  }

  async stop(graceMs: number): Promise<void> {
    for (const unsubscribe of this.#unsubscribe.splice(0)) unsubscribe();
    await this.#loop.stop(graceMs);
  }

  async #claim(): Promise<Claimed<SweepStep>> {
    const { database, config, metrics } = this.#deps;
    const leaseMs = Math.max(MIN_LEASE_MS, CALLS_OF_A_STEP * config.FETCH_TIMEOUT_MS);
    for (;;) {
      const claim = await claimSweepStep(database, { intervalMs: config.PROVIDER_WORKER_INTERVAL_MS, leaseMs });
      if ('step' in claim) return { job: claim.step };
      metrics.pollingLastFinished.set(await findLastSweepEnd(database));
      if ('waitMs' in claim) return { waitMs: claim.waitMs };
      this.#report(claim.finished);
    }
  }

  #report(sweep: SweepSummary): void {
    // Half of the athletes given up says more about the provider or the network than about athletes.
    const failed = sweep.failed > 0 && sweep.failed * 2 >= sweep.athletes;
    this.#deps.metrics.pollingSweeps.inc({ result: failed ? 'failed' : 'finished' });
    this.#deps.logger.log(failed ? 'warn' : 'info', `polling sweep ${failed ? 'failed' : 'finished'}`, {
      component: COMPONENT,
      ...sweep,
      tookMs: Math.round(sweep.tookMs),
    });
  }

  async #run(step: SweepStep, signal: AbortSignal): Promise<void> {
    const { database, logger, metrics } = this.#deps;
    try {
      await pollAthlete(this.#deps, step, signal);
    } catch (error) {
      const { message } = error as Error;
      const lost = error instanceof SweepLostError;
      // Without the athlete's id: they may have been erased meanwhile.
      if (lost) logger.info('a page was dropped', { component: COMPONENT, error: message });
      else if (!signal.aborted && !isUnavailable(error)) metrics.errors.inc({ component: COMPONENT });
      // What is another's by now stays theirs.
      const handBack = lost || signal.aborted ? putOffSweep(database, step) : pollLater(this.#deps, step, message);
      await handBack.catch((problem: Error) =>
        logger.warn('a page could not be handed back; its claim runs out by itself', {
          component: COMPONENT,
          error: problem.message,
        }),
      );
    }
  }
}
