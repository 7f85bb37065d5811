import type { PgBoss } from 'pg-boss';
import type { Int64 } from '../domain/int64.ts';
import type { Database } from '../infra/database.ts';
import type { Logger } from '../infra/logger.ts';
import type { SecretBox } from '../infra/secret-box.ts';
import type { Provider } from '../provider/client.ts';
import { ProviderError } from '../provider/errors.ts';
import type { Budget } from '../queue/budget.ts';
import {
  completeDeauthorization,
  type DeauthorizationRun,
  queueDeauthorization,
  retryDeauthorization,
} from '../queue/deauthorization-queue.ts';
import { findTokens, hasConnectedSince, hideAthlete, lockAthlete } from '../store/athletes.ts';
import { addAthleteEvent, type LedgerResult, refuteEvent } from '../store/webhook-events.ts';
import { type AccessTokens, ReconnectError } from './access-token.ts';
import { CLOCKS_DIFFER_MS, type EraseAthlete } from './erase-athlete.ts';
import { stopForThrottle, type ThrottledDependencies } from './throttled.ts';

const ERASE_AFTER_S = 48 * 3600;
const TRUSTED_AHEAD_MS = 3_600_000;

/** A provider's event that an athlete has withdrawn access. */
export interface Withdrawal {
  athleteId: Int64;
  eventTime: Date;
  subscriptionId: Int64;
  aspect: 'create' | 'update' | 'delete';
  updates: Record<string, unknown>;
  /** The delivery carried a valid signature: nothing needs to be confirmed. */
  signed: boolean;
}

/** Accepts a withdrawal; resolves when it is durable. */
export type AcceptDeauthorization = (withdrawal: Withdrawal) => Promise<LedgerResult | 'duplicate' | 'deauthorized'>;

/**
 * A signed withdrawal erases the athlete at once. Any other is queued: it erases when the provider refuses the athlete's
 * own token and its refresh. Where the token was dead before, nothing can be confirmed: the data is hidden, and erased
 * after 48 h unless the athlete reconnects.
 */
export function createAcceptDeauthorization(deps: {
  database: Database;
  boss: PgBoss;
  erase: EraseAthlete;
  now: () => number;
}): AcceptDeauthorization {
  return async (withdrawal) => {
    const { athleteId, eventTime, signed } = withdrawal;
    const isAhead = eventTime.getTime() > deps.now() + TRUSTED_AHEAD_MS;
    if (signed && !isAhead) return (await deps.erase(athleteId, eventTime)) ? 'deauthorized' : 'stale';
    return deps.database.transaction(async (tx) => {
      await lockAthlete(tx, athleteId);
      const tokens = await findTokens(tx, athleteId);
      // Nothing is stored about them, and no ledger row may name them again.
      if (!tokens) return isAhead ? 'refuted' : 'accepted';
      const event = await addAthleteEvent(tx, { ...withdrawal, result: isAhead ? 'refuted' : 'accepted' });
      if (!event) return 'duplicate';
      if (isAhead) return 'refuted';
      const isDead = tokens.state === 'reconnect';
      if (isDead) await hideAthlete(tx, athleteId);
      const withdrawnAt = new Date(Math.min(eventTime.getTime(), event.receivedAt.getTime())).toISOString();
      const step = isDead ? 'erase' : 'confirm';
      await queueDeauthorization(
        deps.boss,
        tx,
        { athleteId, eventId: event.id, withdrawnAt, step },
        isDead ? ERASE_AFTER_S : 0,
      );
      return 'accepted';
    });
  };
}

export interface ConfirmDependencies extends ThrottledDependencies {
  database: Database;
  boss: PgBoss;
  provider: Provider;
  accessTokens: AccessTokens;
  budget: Budget;
  secretBox: SecretBox;
  erase: EraseAthlete;
  logger: Logger;
}

/** Confirms or refutes a queued withdrawal, or carries it out after the wait. @throws ClaimLostError */
export async function confirmDeauthorization(
  deps: ConfirmDependencies,
  run: DeauthorizationRun,
): Promise<'erased' | 'refuted' | 'retry'> {
  const { boss, database } = deps;
  const withdrawnAt = new Date(run.withdrawnAt);
  const answer = await askProvider(deps, run, withdrawnAt);
  if (answer.kind === 'unknown') {
    await retryDeauthorization(boss, database, run, answer.why);
    return 'retry';
  }
  // The erasure deletes this job with the rest. An athlete who reconnected during the call is kept: the erasure checks
  // again, under their lock.
  if (answer.kind === 'refused' && (await deps.erase(run.athleteId, withdrawnAt))) return 'erased';
  await database.transaction(async (tx) => {
    await refuteEvent(tx, run.eventId);
    await completeDeauthorization(boss, tx, run);
  });
  return 'refuted';
}

type Answer = { kind: 'refused' } | { kind: 'accepted' } | { kind: 'unknown'; why: string };

/** Only a 401 for the athlete's token, followed by a refused refresh, says that access was withdrawn. */
async function askProvider(deps: ConfirmDependencies, run: DeauthorizationRun, withdrawnAt: Date): Promise<Answer> {
  const { accessTokens, database, provider, secretBox } = deps;
  const { athleteId, step } = run;
  if (await hasConnectedSince(database, athleteId, new Date(withdrawnAt.getTime() + CLOCKS_DIFFER_MS)))
    return { kind: 'accepted' };
  const tokens = await findTokens(database, athleteId);
  // Nothing is stored about them any more, or the 48 h for an already invalid token are over.
  if (!tokens || step === 'erase') return { kind: 'refused' };
  let token = secretBox.open(tokens.accessToken);
  try {
    for (let call = 1; call <= 2; call += 1) {
      const opensAt = await deps.budget.take('webhook');
      if (opensAt) return { kind: 'unknown', why: 'The budget has no call left at the moment.' };
      const isAccepted = await provider.getAthlete(token).then(() => true, refusedOnly);
      if (isAccepted) return { kind: 'accepted' };
      if (call === 1) token = await accessTokens.get(athleteId, undefined, token);
    }
    return { kind: 'unknown', why: 'The provider refuses the token, yet refreshes it.' };
  } catch (error) {
    if (error instanceof ReconnectError) return { kind: 'refused' };
    if (error instanceof ProviderError && error.code === 'THROTTLED') await stopForThrottle(deps, error, error.message);
    return { kind: 'unknown', why: (error as Error).message };
  }
}

function refusedOnly(error: unknown): false {
  if (error instanceof ProviderError && error.code === 'UNAUTHORIZED') return false;
  throw error;
}
