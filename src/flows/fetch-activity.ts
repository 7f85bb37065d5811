import { isNativeError } from 'node:util/types';
import { isDatabaseAway } from '../infra/database-errors.ts';
import type { Provider } from '../provider/client.ts';
import { ProviderError } from '../provider/errors.ts';
import type { ActivityDetail } from '../provider/schemas.ts';
import type { Budget } from '../queue/budget.ts';
import type { Run } from '../queue/claim.ts';
import { SupersededError } from '../queue/settle.ts';
import { deleteActivity, removeActivity } from '../store/activities.ts';
import { type AccessTokens, ReconnectError } from './access-token.ts';
import { type EndRunDependencies, endingsOf, type RunEndings, type RunResult } from './end-run.ts';
import { stopForThrottle } from './throttled.ts';
import { toActivity } from './to-activity.ts';

export interface FetchDependencies extends EndRunDependencies {
  provider: Provider;
  accessTokens: AccessTokens;
  budget: Budget;
  /** How old a grant of the budget may be when its call leaves; an older one is renewed, its window may be over. */
  grantValidMs: number;
  /** After the claim, a call must leave within this time: no longer is the athlete kept from another one. */
  callWithinMs: number;
}

/**
 * Runs a claimed job to its end: the provider's answer is stored, the thumbnail is asked for and the job
 * is completed in one transaction.
 * @param signal aborts the call to the provider when the process stops; the job is then put back
 * @throws SupersededError when the claim was lost meanwhile; nothing was written
 */
export async function fetchActivity(deps: FetchDependencies, run: Run, signal: AbortSignal): Promise<RunResult> {
  const end = endingsOf(deps, run, signal);
  if (run.aspect === 'delete') {
    return end.complete('deleted', (tx) => deleteActivity(tx, run.activityId, run.athleteId));
  }
  if (!run.knownAthlete) {
    const error = `Athlete ${run.athleteId} is not connected. Connect them, then retry the job.`;
    return end.refuse('unknownAthlete', error, undefined, false);
  }
  if (run.athleteState === 'reconnect') {
    const error = `Athlete ${run.athleteId} must connect again; the provider refuses their token.`;
    return end.refuse('unauthorized', error, undefined, false);
  }
  if (run.athleteState === 'scope') {
    const error = `Athlete ${run.athleteId} did not allow their activities to be read. They must connect again and allow it.`;
    return end.refuse('forbidden', error, undefined, false);
  }
  if (!run.needsCall) return end.complete('skipped');

  let answer: Answer;
  try {
    answer = await callProvider(deps, run, end, signal);
  } catch (error) {
    return settleFailure(deps, run, end, error, performance.now(), signal);
  }
  const answeredAt = performance.now();
  try {
    return await end.stored(toActivity(run, answer.detail), answer.body, answeredAt);
  } catch (error) {
    if (error instanceof SupersededError || isDatabaseAway(error)) throw error;
    if (isUnstorable(error)) return end.retry(`The answer cannot be stored: ${error.message}`, answeredAt);
    return end.retryUnforeseen(error as Error, answeredAt);
  }
}

interface Answer {
  detail: ActivityDetail;
  /** The whole answer. */
  body: string;
}

async function callProvider(deps: FetchDependencies, run: Run, end: RunEndings, signal: AbortSignal): Promise<Answer> {
  const known =
    run.accessToken !== undefined && run.tokenExpiresAt
      ? { accessToken: run.accessToken, expiresAt: run.tokenExpiresAt }
      : undefined;
  const token = await end.outlast(() => deps.accessTokens.get(run.athleteId, known));
  // A refresh, or a process that stood still, has used up the time.
  if (performance.now() - run.claimedAt > deps.grantValidMs)
    await waitForGrant(deps, run, end, false, () => deps.budget.renew(run.reason, run.startedAt));
  try {
    return checkAnswer(run, await deps.provider.getActivity(token, run.activityId, signal));
  } catch (error) {
    if (!(error instanceof ProviderError && error.code === 'UNAUTHORIZED')) throw error;
    // Once only: a new token, another call out of the budget, the same request again.
    const fresh = await end.outlast(() => deps.accessTokens.get(run.athleteId, undefined, token));
    await waitForGrant(deps, run, end, true, () => deps.budget.take(run.reason));
    return checkAnswer(run, await deps.provider.getActivity(fresh, run.activityId, signal));
  }
}

/** Asks for a call while the athlete is still kept for it. @throws CallPutOff */
async function waitForGrant(
  deps: FetchDependencies,
  run: Run,
  end: RunEndings,
  called: boolean,
  ask: () => Promise<Date | undefined>,
): Promise<void> {
  const checkTime = () => {
    if (performance.now() - run.claimedAt > deps.callWithinMs)
      throw new CallPutOff('The call could not leave in time; the job waits for its next turn.', undefined, called);
  };
  checkTime();
  const opensAt = await end.outlast(ask);
  if (opensAt) throw new CallPutOff('The budget has no call left for this job just now.', opensAt, called);
  checkTime(); // the database may have kept the grant waiting
}

/** The call was not made, for no reason of the job's own. */
class CallPutOff extends Error {
  /** Undefined: it may be made at once. */
  readonly until: Date | undefined;
  /** Whether the athlete was called before it. */
  readonly called: boolean;
  constructor(message: string, until: Date | undefined, called: boolean) {
    super(message);
    this.until = until;
    this.called = called;
  }
}

function checkAnswer(run: Run, answer: Answer): Answer {
  if (answer.detail.id === run.activityId && answer.detail.athlete.id === run.athleteId) return answer;
  throw new ProviderError(
    'UNREADABLE',
    `The provider answered for activity ${run.activityId} of athlete ${run.athleteId} with another one.`,
  );
}

async function settleFailure(
  deps: FetchDependencies,
  run: Run,
  end: RunEndings,
  error: unknown,
  answeredAt: number,
  signal: AbortSignal,
): Promise<RunResult> {
  if (signal.aborted) return end.putBack('The service stopped during the call.', undefined, answeredAt);
  if (error instanceof CallPutOff) {
    // Where nobody was called, the athlete's cooldown is over at once.
    return end.putBack(error.message, error.until, error.called ? answeredAt : answeredAt - deps.cooldownMs);
  }
  if (error instanceof ReconnectError) return end.refuse('unauthorized', error.message, answeredAt, false);
  if (!(error instanceof ProviderError)) return end.retryUnforeseen(error as Error, answeredAt);
  const { message } = error;
  switch (error.code) {
    case 'THROTTLED': {
      // Without the address: what everyone is shown for a while must not name an athlete's activity.
      const until = await end.outlast(() => stopForThrottle(deps, error, answerOf(error)));
      return end.putBack(message, until, answeredAt);
    }
    case 'NOT_FOUND':
      return end.fail('notFound', message, answeredAt, (tx) => removeActivity(tx, run.activityId, run.athleteId));
    case 'UNAUTHORIZED':
    case 'FORBIDDEN': {
      deps.metrics.authorisationFailures.inc({ code: String(error.status) });
      const outcome = error.code === 'FORBIDDEN' ? 'forbidden' : 'unauthorized';
      return end.refuse(outcome, message, answeredAt, true);
    }
    default:
      return end.retry(message, answeredAt);
  }
}

function answerOf({ status, providerMessage }: ProviderError): string {
  return `The provider answered HTTP ${status}${providerMessage ? ` (${providerMessage})` : ''}`;
}

// A value out of PostgreSQL's range, or nested beyond its limits: the provider's answer is at fault.
function isUnstorable(error: unknown): error is Error {
  return isNativeError(error) && /^(22|54)...$/.test(String((error as { code?: unknown }).code));
}
