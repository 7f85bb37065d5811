import type { PgBoss } from 'pg-boss';
import type { Clock } from '../domain/clock.ts';
import { type FetchDependencies, fetchActivity } from '../flows/fetch-activity.ts';
import type { Config } from '../infra/config.ts';
import type { Database } from '../infra/database.ts';
import { isUnavailable } from '../infra/database-errors.ts';
import { retryWhileUnavailable } from '../infra/database-policy.ts';
import type { Logger } from '../infra/logger.ts';
import type { Metrics } from '../infra/metrics.ts';
import type { NotifyHub } from '../infra/notify-hub.ts';
import type { Presence } from '../infra/presence.ts';
import { claimRun, type Run } from '../queue/claim.ts';
import { ClaimLostError } from '../queue/claims.ts';
import type { Completer } from '../queue/completer.ts';
import type { RunResult, Settlement } from '../queue/settlement.ts';
import { type Claimed, WorkerLoop } from './worker-loop.ts';

const COMPONENT = 'fetch';

export type FetchWorkerDependencies = Omit<FetchDependencies, 'persist'> & {
  database: Database;
  boss: PgBoss;
  completer: Completer;
  presence: Presence;
  clock: Clock;
  config: Config;
  hub: NotifyHub;
  logger: Logger;
  metrics: Metrics;
};

/** The activity fetch worker: claims a fetch job, runs it, settles it. */
export class FetchWorker {
  readonly #deps: FetchWorkerDependencies;
  readonly #loop: WorkerLoop<Run>;
  readonly #inHand = new Set<string>();
  #unsubscribe: (() => void)[] = [];

  constructor(deps: FetchWorkerDependencies) {
    this.#deps = deps;
    this.#loop = new WorkerLoop<Run>({
      ...deps,
      name: COMPONENT,
      slots: deps.config.FETCH_CONCURRENCY,
      pollIntervalMs: deps.config.FETCH_POLL_INTERVAL_MS,
      claim: () => this.#claim(),
      run: (run, signal) => this.#run(run, signal),
    });
  }

  /** The pg-boss jobs that this worker runs, or ran and could not settle. */
  get inHand(): ReadonlySet<string> {
    return this.#inHand;
  }

  start(): void {
    const { config, hub, logger } = this.#deps;
    logger.info(`activity fetch worker started, checking for jobs every ${config.FETCH_POLL_INTERVAL_MS} ms`, {
      component: COMPONENT,
      concurrency: config.FETCH_CONCURRENCY,
    });
    this.#unsubscribe = [hub.on('fetch', () => this.#loop.wake()), hub.on('budget', () => this.#loop.wake())];
    this.#loop.start();
  }

  async stop(graceMs: number): Promise<void> {
    for (const unsubscribe of this.#unsubscribe.splice(0)) unsubscribe();
    await this.#loop.stop(graceMs);
  }

  async #claim(): Promise<Claimed<Run>> {
    const { database, boss, config, presence } = this.#deps;
    // Without its lock the others would declare this process dead, and reclaim its jobs.
    if (!presence.isRegistered || presence.processId === undefined) return { jobs: [] };
    const { run, waitMs } = await claimRun(database, boss, { processId: presence.processId, holdMs: holdMsOf(config) });
    if (!run) return { jobs: [], waitMs };
    this.#inHand.add(run.bossJobId);
    this.#deps.logger.debug('job claimed', {
      ...fieldsOf(run),
      needsCall: run.needsCall,
      waitedMs: Math.round(run.waitedMs),
    });
    return { jobs: [run] };
  }

  async #run(run: Run, signal: AbortSignal): Promise<void> {
    const { metrics } = this.#deps;
    const startedAt = performance.now();
    metrics.jobWait.observe({ reason: run.reason }, run.waitedMs / 1000);
    if (run.needsCall) metrics.budgetGrants.inc({ reason: run.reason, result: 'granted' });
    const result = await this.#runAndSettle(run, signal);
    // An unsettled run is not a lost claim: its job is reclaimed when it is stale, and the attempt counts.
    if (result !== 'error') this.#inHand.delete(run.bossJobId);
    metrics.jobRun.observe({ reason: run.reason }, (performance.now() - startedAt) / 1000);
    metrics.jobsFinished.inc({ reason: run.reason, result });
    if (result === 'stored' && run.reason === 'webhook') {
      metrics.storedAfter.observe(Math.max(0, (this.#deps.clock.now() - run.requestedAt.getTime()) / 1000));
    }
  }

  async #runAndSettle(run: Run, signal: AbortSignal): Promise<RunResult | 'superseded' | 'error'> {
    const { completer, config, logger } = this.#deps;
    const startedAt = performance.now();
    const until = run.claimedAt + config.FETCH_STALE_AFTER_MS;
    try {
      const settlement = await this.#decide(run, until, signal);
      const ms = Math.round(performance.now() - startedAt);
      const result = await completer.settle(run, settlement, { until, signal });
      // Only now is it known that the athlete was not erased during the run: no line names them after an erasure.
      logger.debug('run decided', { ...fieldsOf(run), settlement: settlement.kind, ms });
      this.#report(run, settlement, result, performance.now() - startedAt);
      return result;
    } catch (error) {
      if (error instanceof ClaimLostError) {
        // Reclaimed, deleted, or settled by an attempt whose answer was lost. The athlete may have been erased: no ids.
        logger.warn('claim lost, result discarded', { component: COMPONENT, jobId: run.jobId });
        return 'superseded';
      }
      // The job stays claimed, and is rescued as stale: nothing is lost.
      const unavailable = isUnavailable(error);
      if (!unavailable) this.#deps.metrics.errors.inc({ component: COMPONENT });
      logger.log(unavailable ? 'warn' : 'error', 'run not settled, job will be reclaimed', { ...fieldsOf(run), error });
      return 'error';
    }
  }

  /** An internal error costs an attempt: the job keeps the reason, the log has the rest. */
  async #decide(run: Run, until: number, signal: AbortSignal): Promise<Settlement> {
    const persist = <T>(work: () => Promise<T>) => retryWhileUnavailable(work, { until, signal });
    try {
      return await fetchActivity({ ...this.#deps, persist }, run, signal);
    } catch (error) {
      if (isUnavailable(error)) throw error;
      this.#deps.metrics.errors.inc({ component: COMPONENT });
      this.#deps.logger.error('run failed for an unforeseen reason', { ...fieldsOf(run), error });
      const lastCall = { at: performance.now() };
      return { kind: 'retry', error: `The service failed: ${(error as Error).message}`, lastCall };
    }
  }

  #report(run: Run, settlement: Settlement, result: RunResult, ms: number): void {
    const { logger, metrics } = this.#deps;
    if (settlement.kind === 'release' && settlement.throttle) metrics.throttled.inc();
    if (result === 'unauthorized' || result === 'forbidden') {
      const code = result === 'unauthorized' ? '401' : '403';
      if (run.needsCall) metrics.authorisationFailures.inc({ code });
    }
    const error = settlement.kind === 'stored' ? undefined : settlement.error;
    logger.log(error === undefined ? 'info' : 'warn', `job ${result}`, {
      ...fieldsOf(run),
      attempts: run.attempts,
      ms: Math.round(ms),
      ...(error === undefined ? {} : { error }),
    });
  }
}

function fieldsOf(run: Run) {
  const { jobId, activityId, athleteId, reason } = run;
  return { component: COMPONENT, jobId, activityId, athleteId, reason };
}

/** How long the athlete is blocked for other calls, in milliseconds, unless the run ends earlier. */
export function holdMsOf(config: Pick<Config, 'PROVIDER_ATHLETE_COOLDOWN' | 'FETCH_TIMEOUT_MS'>): number {
  return config.PROVIDER_ATHLETE_COOLDOWN + config.FETCH_TIMEOUT_MS;
}
