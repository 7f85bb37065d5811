import type { Clock } from '../domain/clock.ts';
import type { RunResult } from '../flows/end-run.ts';
import { type FetchDependencies, fetchActivity } from '../flows/fetch-activity.ts';
import { LostClaims } from '../flows/lost-claims.ts';
import { createStoreRun } from '../flows/store-run.ts';
import type { Config } from '../infra/config.ts';
import { isDatabaseAway } from '../infra/database-errors.ts';
import type { NotifyHub } from '../infra/notify-hub.ts';
import { createClaimRuns, type Run } from '../queue/claim.ts';
import { endExpiredRuns, rescueStaleRuns, wakeForgottenLanes } from '../queue/rescue.ts';
import { SupersededError } from '../queue/settle.ts';
import { Repeater } from './repeater.ts';
import { WorkerLoop } from './worker-loop.ts';

const COMPONENT = 'fetch';
const LANE_CHECK_MS = 60_000;
const EXPIRY_CHECK_MS = 3_600_000;

type FetchWorkerDependencies = Omit<FetchDependencies, 'storeRun'> & {
  clock: Clock;
  config: Config;
  hub: NotifyHub;
};

/**
 * The activity fetch worker: claims fetch jobs and runs them, takes stale ones back, and looks for
 * lanes that went past the schedule.
 */
export class FetchWorker {
  readonly #deps: FetchWorkerDependencies & FetchDependencies;
  readonly #loop: WorkerLoop<Run>;
  readonly #lostClaims: LostClaims;
  readonly #rescue: Repeater;
  readonly #laneCheck: Repeater;
  readonly #expiryCheck: Repeater;
  #unsubscribe: (() => void)[] = [];

  constructor(deps: FetchWorkerDependencies) {
    const { clock, logger, metrics, config } = deps;
    const holdMs = holdMsOf(config);
    this.#lostClaims = new LostClaims({
      ...deps,
      staleAfterMs: config.FETCH_STALE_AFTER_MS,
      onPutBack: () => this.#loop.wake(),
    });
    const { markClaims } = this.#lostClaims;
    const claimRuns = createClaimRuns(deps.database, deps.boss, markClaims);
    const storeRun = createStoreRun(deps.database, deps.boss, {
      holdMs,
      markClaims,
      wanted: (ending) => this.#loop.successors(ending),
      running: () => this.#loop.busy,
      start: (runs, asked) => this.#loop.follow(runs, asked),
    });
    this.#deps = { ...deps, storeRun };
    this.#loop = new WorkerLoop<Run>({
      name: COMPONENT,
      slots: config.FETCH_CONCURRENCY,
      pollIntervalMs: config.FETCH_POLL_INTERVAL_MS,
      claim: async (most) => {
        const { runs, waitMs } = await claimRuns(most, holdMs);
        return { jobs: runs, waitMs };
      },
      run: (run, signal) => this.#run(run, signal),
      clock,
      logger,
      metrics,
    });
    const rescueEveryMs = Math.max(250, Math.min(30_000, config.FETCH_STALE_AFTER_MS / 4));
    this.#rescue = new Repeater({
      name: 'stale recovery',
      everyMs: rescueEveryMs,
      run: () => this.#rescueStale(),
      clock,
      logger,
    });
    this.#laneCheck = new Repeater({
      name: 'lane check',
      everyMs: LANE_CHECK_MS,
      run: () => this.#checkLanes(),
      clock,
      logger,
    });
    this.#expiryCheck = new Repeater({
      name: 'expiry check',
      everyMs: EXPIRY_CHECK_MS,
      run: () => this.#endExpired(),
      clock,
      logger,
    });
  }

  start(): void {
    const { config, hub, logger } = this.#deps;
    logger.info(`activity fetch worker started, checking for jobs every ${config.FETCH_POLL_INTERVAL_MS} ms`, {
      component: COMPONENT,
      concurrency: config.FETCH_CONCURRENCY,
    });
    this.#unsubscribe = [hub.on('fetch', () => this.#loop.wake()), hub.on('budget', () => this.#loop.wake())];
    this.#rescue.start();
    this.#laneCheck.start();
    this.#expiryCheck.start();
    this.#loop.start();
  }

  async stop(graceMs: number): Promise<void> {
    for (const unsubscribe of this.#unsubscribe.splice(0)) unsubscribe();
    const checks = [this.#rescue, this.#laneCheck, this.#expiryCheck];
    await Promise.all([...checks.map((check) => check.stop()), this.#loop.stop(graceMs)]);
    await this.#lostClaims.stop();
  }

  async #run(run: Run, signal: AbortSignal): Promise<void> {
    const { logger, metrics } = this.#deps;
    const startedAt = performance.now();
    metrics.jobWait.observe({ reason: run.reason }, run.waitedMs / 1000);
    if (run.needsCall) metrics.budgetGrants.inc({ reason: run.reason, result: 'granted' });
    const fields = {
      component: COMPONENT,
      jobId: run.jobId,
      activityId: run.activityId,
      athleteId: run.athleteId,
      reason: run.reason,
    };
    let result: RunResult | 'superseded' | 'error' = 'error';
    try {
      result = await fetchActivity(this.#deps, run, signal);
      const level = result === 'retry' || result === 'put_back' ? 'warn' : 'info';
      logger.log(level, `job ${result}`, {
        ...fields,
        attempts: run.attempts,
        ms: Math.round(performance.now() - startedAt),
      });
    } catch (error) {
      if (error instanceof SupersededError) {
        result = 'superseded';
        // Taken back, deleted, or ended by a try whose answer was lost. The job's id alone: its athlete may have
        // been erased meanwhile.
        logger.warn('late result dropped: the claim of its job has ended', {
          component: COMPONENT,
          jobId: run.jobId,
        });
      } else {
        // The job stays claimed, and is taken back as stale: nothing is lost.
        const away = isDatabaseAway(error);
        if (!away) metrics.errors.inc({ component: COMPONENT });
        logger.log(away ? 'warn' : 'error', 'a run ended without settling its job; it will be taken back', {
          ...fields,
          error,
        });
      }
    }
    metrics.jobRun.observe({ reason: run.reason }, (performance.now() - startedAt) / 1000);
    metrics.jobsFinished.inc({ reason: run.reason, result });
    if (result === 'stored' && run.reason === 'webhook') {
      metrics.storedAfter.observe(Math.max(0, (this.#deps.clock.now() - run.requestedAt.getTime()) / 1000));
    }
  }

  async #rescueStale(): Promise<void> {
    const { database, boss, config, backoff, random, logger, metrics } = this.#deps;
    const { taken, problem } = await rescueStaleRuns(database, boss, {
      staleAfterMs: config.FETCH_STALE_AFTER_MS,
      ...backoff,
      random,
    });
    if (taken > 0) {
      metrics.staleReclaims.inc(taken);
      logger.warn('stale jobs taken back', { component: COMPONENT, jobs: taken });
      this.#loop.wake();
    }
    if (problem) throw problem;
  }

  async #checkLanes(): Promise<void> {
    const woken = await wakeForgottenLanes(this.#deps.database, holdMsOf(this.#deps.config));
    if (woken > 0)
      this.#deps.logger.warn('jobs waited in lanes that the schedule had lost; woken', {
        component: COMPONENT,
        lanes: woken,
      });
  }

  async #endExpired(): Promise<void> {
    const ended = await endExpiredRuns(this.#deps.database);
    if (ended > 0)
      this.#deps.logger.warn('jobs ended that nobody took back in time: pg-boss had given them up', {
        component: COMPONENT,
        jobs: ended,
      });
  }
}

/** For how long an athlete is kept from another call, unless the run ends before. */
function holdMsOf(config: Config): number {
  return config.PROVIDER_ATHLETE_COOLDOWN + config.FETCH_TIMEOUT_MS;
}
