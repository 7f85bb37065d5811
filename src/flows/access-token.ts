import type { PgBoss } from 'pg-boss';
import type { Int64 } from '../domain/int64.ts';
import type { Database, Queryable } from '../infra/database.ts';
import { retryWhileUnavailable } from '../infra/database-policy.ts';
import type { Metrics } from '../infra/metrics.ts';
import type { SecretBox } from '../infra/secret-box.ts';
import type { Provider } from '../provider/client.ts';
import { ProviderError } from '../provider/errors.ts';
import type { TokenAnswer } from '../provider/schemas.ts';

import {
  findTokens,
  lockTokens,
  replaceTokens,
  type SealedTokens,
  saveTokens,
  setAthleteState,
} from '../store/athletes.ts';
import { lockJobsOfAthlete } from '../store/fetch-jobs.ts';
import { reopenRefused } from './reopen-refused.ts';

/** The athlete must reconnect: not connected, or the provider refuses to refresh their token. */
export class ReconnectError extends Error {
  override name = 'ReconnectError';
  readonly code = 'RECONNECT';
}

/** The provider refuses the service itself: an operator must correct the configuration. */
export class CredentialsError extends Error {
  override name = 'CredentialsError';
  readonly code = 'CREDENTIALS';
}

const MARGIN_MS = 60_000;

/** Hands out valid access tokens, refreshing them when needed. */
export interface AccessTokens {
  /**
   * @param known the tokens as just read, to save a query
   * @param rejected an access token that the provider refused: it is replaced even if it has not expired
   * @throws ReconnectError; CredentialsError; ProviderError when the provider cannot be reached
   */
  get(athleteId: Int64, known?: { accessToken: string; expiresAt: Date }, rejected?: string): Promise<string>;
}

export function createAccessTokens(deps: {
  database: Database;
  boss: PgBoss;
  secretBox: SecretBox;
  provider: Provider;
  metrics: Metrics;
  now: () => number;
}): AccessTokens {
  const holds = (expiresAt: Date) => expiresAt.getTime() > deps.now() + MARGIN_MS;
  const open = new Map<Int64, Promise<string>>();

  /** @param keep receives a new pair as soon as the provider has given it */
  const getLocked = async (
    tx: Queryable,
    athleteId: Int64,
    rejected: string | undefined,
    keep: (pair: NewPair) => void,
  ): Promise<string | ReconnectError> => {
    await lockTokens(tx, athleteId);
    const tokens = await findTokens(tx, athleteId);
    if (!tokens) return new ReconnectError(`Athlete ${athleteId} is not connected.`);
    const current = deps.secretBox.open(tokens.accessToken);
    if (current !== rejected && holds(tokens.expiresAt)) return current;
    const spent = { accessToken: current, refreshToken: deps.secretBox.open(tokens.refreshToken) };
    const fresh = await refresh(deps.provider, spent.refreshToken, athleteId);
    if (fresh instanceof ReconnectError) {
      // Under the lock as well, so that an athlete who is just connecting is not marked afterwards.
      await setAthleteState(tx, athleteId, 'reconnect', fresh.message);
      return fresh;
    }
    const sealed = sealTokens(deps.secretBox, fresh);
    keep({ spent, sealed, accessToken: fresh.access_token });
    await saveTokens(tx, athleteId, sealed);
    return fresh.access_token;
  };

  const getFresh = async (athleteId: Int64, rejected: string | undefined): Promise<string> => {
    let pair: NewPair | undefined;
    const keep = (given: NewPair) => {
      pair = given;
    };
    try {
      // The lock is held over the provider's answer and freed by the commit that makes the new pair
      // durable: the next in line finds it, and no process spends an old refresh token twice.
      // Never run twice: the provider takes a refresh token once.
      const token = await deps.database
        .transaction((tx) => getLocked(tx, athleteId, rejected, keep), { tries: 1 })
        .catch((error: Error) => {
          if (!pair) throw error;
          return saveLate(deps, athleteId, pair);
        });
      if (token instanceof ReconnectError) throw token;
      if (pair) deps.metrics.tokenRefreshes.inc({ result: 'refreshed' });
      return token;
    } catch (error) {
      deps.metrics.tokenRefreshes.inc({ result: error instanceof ReconnectError ? 'refused' : 'failed' });
      throw error;
    }
  };

  return {
    get: async (athleteId, known, rejected) => {
      if (known && rejected === undefined && holds(known.expiresAt)) return deps.secretBox.open(known.accessToken);
      // Other callers in this process wait here, and not with a connection of the pool each.
      for (let under = open.get(athleteId); under; under = open.get(athleteId)) {
        const token = await under;
        if (token !== rejected) return token;
      }
      const begun = getFresh(athleteId, rejected).finally(() => open.delete(athleteId));
      open.set(athleteId, begun);
      return begun;
    },
  };
}

/** A pair that the provider issued for a refresh token, which is now spent. */
interface NewPair {
  /** The previous pair, decrypted: while this one waits, a key rotation may re-encrypt that one. */
  spent: { accessToken: string; refreshToken: string };
  sealed: SealedTokens;
  accessToken: string;
}

const SAVE_FOR_MS = 300_000;

/**
 * The database became unreachable between the provider's answer and the commit. The old refresh token is spent, so
 * the athlete must reconnect unless the new pair is saved: saving is retried for five minutes.
 * @throws when that fails
 */
async function saveLate(
  deps: { database: Database; boss: PgBoss; secretBox: SecretBox },
  athleteId: Int64,
  pair: NewPair,
): Promise<string> {
  const isSpent = (stored: { accessToken: string; refreshToken: string }) =>
    deps.secretBox.open(stored.refreshToken) === pair.spent.refreshToken &&
    deps.secretBox.open(stored.accessToken) === pair.spent.accessToken;
  const save = async (tx: Queryable) => {
    await lockTokens(tx, athleteId);
    await lockJobsOfAthlete(tx, athleteId);
    const refused = await replaceTokens(tx, athleteId, isSpent, pair.sealed);
    // Another process used the spent one in between, and was refused.
    if (refused) await reopenRefused(deps.boss, tx, athleteId);
  };
  await retryWhileUnavailable(() => deps.database.transaction(save), { until: performance.now() + SAVE_FOR_MS });
  return pair.accessToken;
}

/** Encrypts a pair of tokens for storage. */
export function sealTokens(
  secretBox: SecretBox,
  tokens: { access_token: string; refresh_token: string; expires_at: number },
): SealedTokens {
  return {
    accessToken: secretBox.seal(tokens.access_token),
    refreshToken: secretBox.seal(tokens.refresh_token),
    expiresAt: new Date(tokens.expires_at * 1000),
  };
}

async function refresh(
  provider: Provider,
  refreshToken: string,
  athleteId: Int64,
): Promise<TokenAnswer | ReconnectError> {
  try {
    return await provider.refreshToken(refreshToken);
  } catch (error) {
    if (!(error instanceof ProviderError)) throw error;
    if (isAboutApplication(error)) {
      throw new CredentialsError(
        `The provider rejects this service's own credentials (${error.message}). Correct PROVIDER_CLIENT_ID, PROVIDER_CLIENT_SECRET or PROVIDER_API_URL.`,
        { cause: error },
      );
    }
    // For an activity's job, only an answer about that activity is final.
    if (error.code === 'UNUSABLE') throw new ProviderError('UNREADABLE', error.message);
    if (error.code !== 'REFUSED') throw error;
    return new ReconnectError(
      `The provider refused to refresh the token of athlete ${athleteId}; they must reconnect.`,
      { cause: error },
    );
  }
}

// Not the athletes' fault: marking them or the activity as failed would turn a wrong
// variable into lasting damage.
function isAboutApplication({ code, providerMessage = '' }: ProviderError): boolean {
  if (code === 'REFUSED') return /\bApplication\b/.test(providerMessage);
  return code === 'UNAUTHORIZED' || code === 'FORBIDDEN' || code === 'NOT_FOUND';
}
