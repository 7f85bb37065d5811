import { isNativeError } from 'node:util/types';
import type { PgBoss } from 'pg-boss';
import { backoffMs } from '../domain/backoff.ts';
import type { Outcome } from '../domain/job.ts';
import type { Database, Queryable } from '../infra/database.ts';
import type { Logger } from '../infra/logger.ts';
import type { Metrics } from '../infra/metrics.ts';
import type { Provider } from '../provider/client.ts';
import { ProviderError } from '../provider/errors.ts';
import type { ActivityDetail } from '../provider/schemas.ts';
import type { Budget } from '../queue/budget.ts';
import type { Run } from '../queue/claim.ts';
import { completeRun, failRun, putBackRun, retryRun, SupersededError } from '../queue/settle.ts';
import { deleteActivity, removeActivity } from '../store/activities.ts';
import { setAthleteState } from '../store/athletes.ts';
import { type AccessTokens, ReconnectError } from './access-token.ts';
import type { StoreRun } from './store-run.ts';
import { toActivity } from './to-activity.ts';

export interface FetchDependencies {
  database: Database;
  boss: PgBoss;
  provider: Provider;
  accessTokens: AccessTokens;
  storeRun: StoreRun;
  budget: Budget;
  logger: Logger;
  metrics: Metrics;
  backoff: { baseMs: number; capMs: number };
  cooldownMs: number;
  /** How old a grant of the budget may be when its call leaves; an older one may count in another window. */
  grantValidMs: number;
  /** After the claim, a call must leave within this time: no longer is the athlete kept from another one. */
  callWithinMs: number;
  random: () => number;
}

/** What became of a run: the outcome of its job, or why the job is pending again. */
export type RunResult = Outcome | 'retry' | 'put_back';

/**
 * Runs a claimed job to its end: the provider's answer is stored, the thumbnail is asked for and the job
 * is completed in one transaction.
 * @param signal aborts the call to the provider when the process stops; the job is then put back
 * @throws SupersededError when the claim was lost meanwhile; nothing was written
 */
export async function fetchActivity(deps: FetchDependencies, run: Run, signal: AbortSignal): Promise<RunResult> {
  if (run.aspect === 'delete') {
    return complete(deps, run, 'deleted', undefined, (tx) => deleteActivity(tx, run.activityId, run.athleteId));
  }
  if (!run.knownAthlete) {
    return fail(
      deps,
      run,
      'unknownAthlete',
      `Athlete ${run.athleteId} is not connected. Connect them, then retry the job.`,
      undefined,
    );
  }
  if (run.athleteState === 'reconnect') {
    return fail(
      deps,
      run,
      'unauthorized',
      `Athlete ${run.athleteId} must connect again; the provider refuses their token.`,
      undefined,
    );
  }
  if (!run.needsCall) return complete(deps, run, 'skipped', undefined);

  try {
    const { detail, body } = await callProvider(deps, run, signal);
    const answeredAt = performance.now();
    await deps.storeRun(run, toActivity(run, detail), body, cooldownOf(deps, answeredAt));
    return 'stored';
  } catch (error) {
    return await settleFailure(deps, run, error, performance.now(), signal);
  }
}

async function callProvider(deps: FetchDependencies, run: Run, signal: AbortSignal) {
  const known =
    run.accessToken !== undefined && run.tokenExpiresAt
      ? { accessToken: run.accessToken, expiresAt: run.tokenExpiresAt }
      : undefined;
  const token = await deps.accessTokens.get(run.athleteId, known);
  // A refresh, or a process that stood still, has used up the time.
  if (performance.now() - run.claimedAt > deps.grantValidMs) await takeAnotherCall(deps, run, false);
  try {
    return checkAnswer(run, await deps.provider.getActivity(token, run.activityId, signal));
  } catch (error) {
    if (!(error instanceof ProviderError && error.code === 'UNAUTHORIZED')) throw error;
    // Once only: a new token, another call out of the budget, the same request again.
    const fresh = await deps.accessTokens.get(run.athleteId, undefined, token);
    await takeAnotherCall(deps, run, true);
    return checkAnswer(run, await deps.provider.getActivity(fresh, run.activityId, signal));
  }
}

/** Takes one more call for a run, while the athlete is still kept for it. @throws CallPutOff */
async function takeAnotherCall(deps: FetchDependencies, run: Run, called: boolean): Promise<void> {
  if (performance.now() - run.claimedAt > deps.callWithinMs)
    throw new CallPutOff('The call could not leave in time; the job waits for its next turn.', new Date(0), called);
  const opensAt = await deps.budget.take(run.reason);
  if (opensAt) throw new CallPutOff('The budget has no call left for this job just now.', opensAt, called);
}

/** The call was not made, for no reason of the job's own. */
class CallPutOff extends Error {
  readonly until: Date;
  /** Whether the athlete was called before it. */
  readonly called: boolean;
  constructor(message: string, until: Date, called: boolean) {
    super(message);
    this.until = until;
    this.called = called;
  }
}

function checkAnswer(run: Run, answer: { detail: ActivityDetail; body: string }) {
  if (answer.detail.id === run.activityId && answer.detail.athlete.id === run.athleteId) return answer;
  throw new ProviderError(
    'UNREADABLE',
    `The provider answered for activity ${run.activityId} of athlete ${run.athleteId} with another one.`,
  );
}

async function settleFailure(
  deps: FetchDependencies,
  run: Run,
  error: unknown,
  answeredAt: number,
  signal: AbortSignal,
): Promise<RunResult> {
  if (signal.aborted) return putBack(deps, run, 'The service stopped during the call.', new Date(0), answeredAt);
  if (error instanceof CallPutOff) {
    // Where nobody was called, the athlete's cooldown is over at once.
    return putBack(deps, run, error.message, error.until, error.called ? answeredAt : answeredAt - deps.cooldownMs);
  }
  if (error instanceof ReconnectError) return fail(deps, run, 'unauthorized', error.message, answeredAt);
  if (isUnstorable(error)) return retry(deps, run, `The answer cannot be stored: ${error.message}`, answeredAt);
  if (error instanceof SupersededError) throw error;
  if (!(error instanceof ProviderError)) return retryUnforeseen(deps, run, error as Error, answeredAt);
  const { message } = error;
  switch (error.code) {
    case 'THROTTLED': {
      deps.metrics.throttled.inc();
      // Without the address: what everyone is shown for a while must not name an athlete's activity.
      const until = await deps.budget.block(error.retryAfterMs, answerOf(error));
      deps.logger.warn('the provider throttles; every replica waits', {
        component: 'budget',
        until: until.toISOString(),
      });
      return putBack(deps, run, message, until, answeredAt);
    }
    case 'NOT_FOUND':
      return fail(deps, run, 'notFound', message, answeredAt, (tx) => removeActivity(tx, run.activityId));
    case 'UNAUTHORIZED':
    case 'FORBIDDEN': {
      deps.metrics.authorisationFailures.inc({ code: String(error.status) });
      const outcome = error.code === 'FORBIDDEN' ? 'forbidden' : 'unauthorized';
      return fail(deps, run, outcome, message, answeredAt, (tx) =>
        setAthleteState(tx, run.athleteId, 'reconnect', message),
      );
    }
    default:
      return retry(deps, run, message, answeredAt);
  }
}

function answerOf({ status, providerMessage }: ProviderError): string {
  return `The provider answered HTTP ${status}${providerMessage ? ` (${providerMessage})` : ''}`;
}

// A value out of PostgreSQL's range, or nested beyond its limits: the provider's answer is at fault.
function isUnstorable(error: unknown): error is Error {
  return isNativeError(error) && /^(22|54)...$/.test(String((error as { code?: unknown }).code));
}

async function complete(
  deps: FetchDependencies,
  run: Run,
  outcome: Outcome,
  answeredAt: number | undefined,
  effects?: (tx: Queryable) => Promise<unknown>,
): Promise<RunResult> {
  await deps.database.transaction(async (tx) => {
    await completeRun(deps.boss, tx, run, outcome, cooldownOf(deps, answeredAt));
    await effects?.(tx);
  });
  return outcome;
}

async function fail(
  deps: FetchDependencies,
  run: Run,
  outcome: Outcome,
  error: string,
  answeredAt: number | undefined,
  effects?: (tx: Queryable) => Promise<unknown>,
): Promise<RunResult> {
  await deps.database.transaction(async (tx) => {
    await failRun(deps.boss, tx, run, outcome, error, cooldownOf(deps, answeredAt));
    await effects?.(tx);
  });
  return outcome;
}

async function retry(deps: FetchDependencies, run: Run, error: string, answeredAt: number): Promise<RunResult> {
  const delayMs = backoffMs(run.attempts, deps.backoff, deps.random());
  const result = await deps.database.transaction((tx) =>
    retryRun(deps.boss, tx, run, error, delayMs, cooldownOf(deps, answeredAt)),
  );
  return result === 'failed' ? 'exhausted' : result;
}

/** A fault of ours: the job keeps the reason and is tried again; the log has the rest. Throws when nothing can be settled. */
function retryUnforeseen(deps: FetchDependencies, run: Run, error: Error, answeredAt: number): Promise<RunResult> {
  deps.metrics.errors.inc({ component: 'fetch' });
  deps.logger.error('a run failed for an unforeseen reason; it is tried again', {
    component: 'fetch',
    jobId: run.jobId,
    activityId: run.activityId,
    athleteId: run.athleteId,
    error,
  });
  return retry(deps, run, `The service failed: ${error.message}`, answeredAt);
}

async function putBack(
  deps: FetchDependencies,
  run: Run,
  why: string,
  until: Date,
  answeredAt: number,
): Promise<RunResult> {
  await deps.database.transaction((tx) => putBackRun(deps.boss, tx, run, why, until, cooldownOf(deps, answeredAt)));
  return 'put_back';
}

function cooldownOf(deps: FetchDependencies, answeredAt: number | undefined) {
  return {
    cooldownMs: deps.cooldownMs,
    answeredAgoMs: answeredAt === undefined ? undefined : performance.now() - answeredAt,
  };
}
