import type { Provider } from '../provider/client.ts';
import { ProviderError } from '../provider/errors.ts';
import type { ActivityDetail } from '../provider/schemas.ts';
import type { Budget } from '../queue/budget.ts';
import type { Run } from '../queue/claim.ts';
import type { LastCall, Settlement } from '../queue/settlement.ts';
import { type AccessTokens, ReconnectError } from './access-token.ts';
import { toActivity } from './to-activity.ts';

export interface FetchDependencies {
  provider: Pick<Provider, 'getActivity'>;
  accessTokens: AccessTokens;
  budget: Pick<Budget, 'take' | 'renew'>;
  /** How old a grant of the budget may be when its call leaves; an older one is renewed, because its window may be over. */
  grantValidMs: number;
  /** After the claim, a call must leave within this time: the claim blocks the athlete for no longer. */
  callWithinMs: number;
  /** Repeats what the database cannot do just now, for as long as the run is not stale. */
  persist: <T>(work: () => Promise<T>) => Promise<T>;
}

/**
 * Runs a claimed job: calls the provider where that is needed, and decides how the run ends. Writes nothing of it.
 * @param signal aborts the call when the process stops; the job is then released
 * @throws errors that neither the provider nor the athlete caused: our own, or the database's
 */
export async function fetchActivity(deps: FetchDependencies, run: Run, signal: AbortSignal): Promise<Settlement> {
  const settlement = settleWithoutCall(run);
  if (settlement) return settlement;
  try {
    const answer = await callProvider(deps, run, signal);
    return {
      kind: 'stored',
      outcome: run.aspect === 'delete' ? 'refuted' : 'stored',
      activity: toActivity(run, answer.detail),
      detail: answer.body,
      lastCall: now(),
    };
  } catch (error) {
    if (signal.aborted) return { kind: 'release', error: 'The service stopped during the call.', lastCall: now() };
    if (error instanceof CallPutOff) return { kind: 'release', error: error.message, lastCall: error.lastCall };
    if (error instanceof ReconnectError)
      return { kind: 'ended', outcome: 'unauthorized', error: error.message, wantsAccess: true, lastCall: now() };
    if (error instanceof ProviderError) return { ...settlementOf(run, error), lastCall: now() };
    throw error;
  }
}

/** How a run without a call ends; undefined when it needs a call. */
function settleWithoutCall(run: Run): Settlement | undefined {
  const { athleteId } = run;
  if (run.aspect === 'delete' && run.signed) return { kind: 'ended', outcome: 'deleted', effect: { kind: 'delete' } };
  // Nothing is stored that a deletion could remove: there is nothing to confirm.
  if (run.aspect === 'delete' && !run.knownActivity && !run.needsCall) return { kind: 'ended', outcome: 'deleted' };
  if (!run.knownAthlete) {
    const error = `Athlete ${athleteId} is not connected. Connect them, then retry the job.`;
    return { kind: 'ended', outcome: 'unknownAthlete', error, wantsAccess: true };
  }
  if (run.athleteState === 'reconnect') {
    const error = `Athlete ${athleteId} must reconnect: the provider refuses their token.`;
    return { kind: 'ended', outcome: 'unauthorized', error, wantsAccess: true };
  }
  if (run.athleteState === 'scope') {
    const error = `Athlete ${athleteId} granted an insufficient scope. They must reconnect and allow their activities to be read.`;
    return { kind: 'ended', outcome: 'forbidden', error, wantsAccess: true };
  }
  return run.needsCall ? undefined : { kind: 'ended', outcome: 'skipped' };
}

/** How a run with a failed call ends. */
function settlementOf(run: Run, error: ProviderError): Settlement {
  const { message } = error;
  const isDeletion = run.aspect === 'delete';
  switch (error.code) {
    case 'THROTTLED':
      // Without the address: a text for every operator must not name an athlete's activity.
      return { kind: 'release', error: message, throttle: { waitMs: error.retryAfterMs, why: answerOf(error) } };
    case 'NOT_FOUND':
      if (isDeletion) return { kind: 'ended', outcome: 'deleted', effect: { kind: 'delete' } };
      return { kind: 'ended', outcome: 'notFound', error: message, effect: { kind: 'remove' } };
    case 'UNUSABLE':
      return { kind: 'ended', outcome: 'unusable', error: message };
    case 'OTHER_ATHLETE':
      if (isDeletion) return { kind: 'ended', outcome: 'deleted', effect: { kind: 'delete' } };
      return { kind: 'ended', outcome: 'unusable', error: message };
    case 'UNAUTHORIZED': {
      const effect = { kind: 'reconnect', detail: message } as const;
      return { kind: 'ended', outcome: 'unauthorized', error: message, effect, wantsAccess: true };
    }
    case 'FORBIDDEN':
      return { kind: 'ended', outcome: 'forbidden', error: message, wantsAccess: true };
    default:
      return { kind: 'retry', error: message };
  }
}

interface Answer {
  detail: ActivityDetail;
  /** The whole answer. */
  body: string;
}

async function callProvider(deps: FetchDependencies, run: Run, signal: AbortSignal): Promise<Answer> {
  const known =
    run.accessToken !== undefined && run.tokenExpiresAt
      ? { accessToken: run.accessToken, expiresAt: run.tokenExpiresAt }
      : undefined;
  const token = await deps.persist(() => deps.accessTokens.get(run.athleteId, known));
  // A refresh or a pause of the process has used up the time.
  if (performance.now() - run.claimedAt > deps.grantValidMs)
    await waitForGrant(deps, run, 'none', () => deps.budget.renew(run.reason, run.startedAt));
  try {
    return checkAnswer(run, await deps.provider.getActivity(token, run.activityId, signal));
  } catch (error) {
    if (!(error instanceof ProviderError && error.code === 'UNAUTHORIZED')) throw error;
    // Only once: a new token, another call out of the budget, the same request again.
    const fresh = await deps.persist(() => deps.accessTokens.get(run.athleteId, undefined, token));
    await waitForGrant(deps, run, now(), () => deps.budget.take(run.reason));
    return checkAnswer(run, await deps.provider.getActivity(fresh, run.activityId, signal));
  }
}

/** Requests a call while the athlete is still held for it. @throws CallPutOff */
async function waitForGrant(
  deps: FetchDependencies,
  run: Run,
  lastCall: LastCall,
  ask: () => Promise<Date | undefined>,
): Promise<void> {
  const checkTime = () => {
    if (performance.now() - run.claimedAt > deps.callWithinMs)
      throw new CallPutOff('The call could not be sent in time; the job was released.', lastCall);
  };
  checkTime();
  const opensAt = await deps.persist(ask);
  if (opensAt) throw new CallPutOff('The budget has no call left for this job at the moment.', lastCall);
  checkTime(); // the database may have kept the grant waiting
}

/** The call was not made, for a reason unrelated to the job. */
class CallPutOff extends Error {
  readonly lastCall: LastCall;
  constructor(message: string, lastCall: LastCall) {
    super(message);
    this.lastCall = lastCall;
  }
}

function checkAnswer(run: Run, answer: Answer): Answer {
  const { id, athlete } = answer.detail;
  if (id !== run.activityId)
    throw new ProviderError('UNUSABLE', `The provider answered with activity ${id} for activity ${run.activityId}.`);
  if (athlete.id !== run.athleteId)
    throw new ProviderError('OTHER_ATHLETE', `Activity ${run.activityId} does not belong to athlete ${run.athleteId}.`);
  return answer;
}

function now(): LastCall {
  return { at: performance.now() };
}

function answerOf({ status, providerMessage }: ProviderError): string {
  return `The provider answered HTTP ${status}${providerMessage ? ` (${providerMessage})` : ''}`;
}
