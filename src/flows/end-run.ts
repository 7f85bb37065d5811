import type { PgBoss } from 'pg-boss';
import { backoffMs } from '../domain/backoff.ts';
import type { Outcome } from '../domain/job.ts';
import type { Database, Queryable } from '../infra/database.ts';
import { isLockTimeout } from '../infra/database-errors.ts';
import type { Logger } from '../infra/logger.ts';
import type { Metrics } from '../infra/metrics.ts';
import type { Run } from '../queue/claim.ts';
import { type Cooldown, completeRun, failRun, putBackRun, retryRun } from '../queue/settle.ts';
import type { Activity } from '../store/activities.ts';
import { findTokens, hasConnectedSince, lockTokens, setAthleteState } from '../store/athletes.ts';
import { outlastDatabase } from './outlast-database.ts';
import type { StoreRun } from './store-run.ts';

export interface EndRunDependencies {
  database: Database;
  boss: PgBoss;
  storeRun: StoreRun;
  logger: Logger;
  metrics: Metrics;
  backoff: { baseMs: number; capMs: number };
  cooldownMs: number;
  /** How long after its claim a run may be ended; older ones are taken back as stale. */
  staleAfterMs: number;
  random: () => number;
}

/** What became of a run: the outcome of its job, or why the job is pending again. */
export type RunResult = Outcome | 'retry' | 'put_back';

type Effects = (tx: Queryable) => Promise<unknown>;

/**
 * The ways in which a run ends. Each commits together with its effects, or throws SupersededError and
 * writes nothing. `answeredAt`, by performance.now(), is when the provider answered; undefined: not called.
 */
export interface RunEndings {
  stored(activity: Activity, detail: string, answeredAt: number): Promise<RunResult>;
  complete(outcome: Outcome, effects?: Effects): Promise<RunResult>;
  fail(outcome: Outcome, error: string, answeredAt: number | undefined, effects?: Effects): Promise<RunResult>;
  /**
   * Fails for want of access. An athlete who connected meanwhile has given it: the job is put back then, since
   * connecting could not open it again.
   * @param isAthleteLost whether they are shown as needing to reconnect
   */
  refuse(outcome: Outcome, error: string, answeredAt: number | undefined, isAthleteLost: boolean): Promise<RunResult>;
  /** Counts an attempt and waits out the backoff. */
  retry(error: string, answeredAt: number): Promise<RunResult>;
  /** The same for a fault of ours: the job keeps the reason, the log has the rest. */
  retryUnforeseen(error: Error, answeredAt: number): Promise<RunResult>;
  /** Counts no attempt. `until` undefined: it may run again at once. */
  putBack(why: string, until: Date | undefined, answeredAt: number): Promise<RunResult>;
  /** Does `work`, and again for as long as the database is away and the run not stale. */
  outlast<T>(work: () => Promise<T>): Promise<T>;
}

/**
 * A database that goes away does not end a run: its call was paid for out of the budget, so its end is
 * tried until the database is back. Where the answer to a commit was lost, the next try finds the claim
 * ended, and throws SupersededError.
 * @param signal when aborted (the process stops), what fails is not tried again
 */
export function endingsOf(deps: EndRunDependencies, run: Run, signal: AbortSignal): RunEndings {
  const onAway = (error: Error) => {
    const what = isLockTimeout(error)
      ? 'somebody has locked what the end of a run changes; what came of it is kept until they let go'
      : 'the database is away; what came of a run is kept until it is back';
    deps.logger.warn(what, {
      component: 'fetch',
      jobId: run.jobId,
      activityId: run.activityId,
      athleteId: run.athleteId,
      error: error.message,
    });
  };
  const until = run.claimedAt + deps.staleAfterMs;
  const outlast = <T>(work: () => Promise<T>) => outlastDatabase(work, { until, signal, onAway });
  const commit = <T>(work: (tx: Queryable) => Promise<T>) => outlast(() => deps.database.transaction(work));
  const cooldownSince = (answeredAt: number | undefined): Cooldown => ({
    cooldownMs: deps.cooldownMs,
    answeredAgoMs: answeredAt === undefined ? undefined : performance.now() - answeredAt,
  });

  const retry = async (error: string, answeredAt: number): Promise<RunResult> => {
    const delayMs = backoffMs(run.attempts, deps.backoff, deps.random());
    const result = await commit((tx) => retryRun(deps.boss, tx, run, error, delayMs, cooldownSince(answeredAt)));
    return result === 'failed' ? 'exhausted' : result;
  };

  return {
    outlast,
    retry,
    stored: async (activity, detail, answeredAt) => {
      await outlast(() => deps.storeRun(run, activity, detail, cooldownSince(answeredAt)));
      return 'stored';
    },
    complete: async (outcome, effects) => {
      await commit(async (tx) => {
        await completeRun(deps.boss, tx, run, outcome, cooldownSince(undefined));
        await effects?.(tx);
      });
      return outcome;
    },
    fail: async (outcome, error, answeredAt, effects) => {
      await commit(async (tx) => {
        await failRun(deps.boss, tx, run, outcome, error, cooldownSince(answeredAt));
        await effects?.(tx);
      });
      return outcome;
    },
    refuse: (outcome, error, answeredAt, isAthleteLost) =>
      commit(async (tx) => {
        await lockTokens(tx, run.athleteId); // an athlete who connects just now waits, or is seen
        if (await hasAccessAnew(tx, run)) {
          const why = 'The athlete connected while the job ran without their access.';
          await putBackRun(deps.boss, tx, run, why, undefined, cooldownSince(answeredAt));
          return 'put_back';
        }
        await failRun(deps.boss, tx, run, outcome, error, cooldownSince(answeredAt));
        if (isAthleteLost) await setAthleteState(tx, run.athleteId, 'reconnect', error);
        return outcome;
      }),
    retryUnforeseen: (error, answeredAt) => {
      deps.metrics.errors.inc({ component: 'fetch' });
      deps.logger.error('a run failed for an unforeseen reason; it is tried again', {
        component: 'fetch',
        jobId: run.jobId,
        activityId: run.activityId,
        athleteId: run.athleteId,
        error,
      });
      return retry(`The service failed: ${error.message}`, answeredAt);
    },
    putBack: async (why, until, answeredAt) => {
      await commit((tx) => putBackRun(deps.boss, tx, run, why, until, cooldownSince(answeredAt)));
      return 'put_back';
    },
  };
}

/** Whether the athlete is not as the run found them: connected since, or in another state than one that lacks access. */
async function hasAccessAnew(tx: Queryable, run: Run): Promise<boolean> {
  if (await hasConnectedSince(tx, run.athleteId, run.startedAt)) return true;
  if (run.athleteState === 'healthy') return false;
  const athlete = await findTokens(tx, run.athleteId);
  return athlete !== undefined && athlete.state !== run.athleteState;
}
