import type { Int64 } from '../domain/int64.ts';
import type { Database, Queryable } from '../infra/database.ts';
import type { Metrics } from '../infra/metrics.ts';
import type { SecretBox } from '../infra/secret-box.ts';
import type { Provider } from '../provider/client.ts';
import { ProviderError } from '../provider/errors.ts';
import type { TokenAnswer } from '../provider/schemas.ts';
import { findTokens, lockTokens, type SealedTokens, saveTokens, setAthleteState } from '../store/athletes.ts';

/** The athlete must connect again: not connected, or the provider refuses to refresh their token. */
export class ReconnectError extends Error {
  override name = 'ReconnectError';
  readonly code = 'RECONNECT';
}

const MARGIN_MS = 60_000;

/** Hands out access tokens that still hold, refreshing them where needed. */
export interface AccessTokens {
  /**
   * @param known the tokens as just read, to spare a look
   * @param rejected an access token that the provider refused: it is replaced even if it should still hold
   * @throws ReconnectError; ProviderError when the provider cannot be asked just now
   */
  get(athleteId: Int64, known?: { accessToken: string; expiresAt: Date }, rejected?: string): Promise<string>;
}

export function createAccessTokens(deps: {
  database: Database;
  secretBox: SecretBox;
  provider: Provider;
  metrics: Metrics;
  now: () => number;
}): AccessTokens {
  const holds = (expiresAt: Date) => expiresAt.getTime() > deps.now() + MARGIN_MS;

  const getLocked = async (
    tx: Queryable,
    athleteId: Int64,
    rejected: string | undefined,
  ): Promise<string | ReconnectError> => {
    await lockTokens(tx, athleteId);
    const tokens = await findTokens(tx, athleteId);
    if (!tokens) return new ReconnectError(`Athlete ${athleteId} is not connected.`);
    const current = deps.secretBox.open(tokens.accessToken);
    if (current !== rejected && holds(tokens.expiresAt)) return current;
    const fresh = await refresh(deps.provider, deps.secretBox.open(tokens.refreshToken), athleteId);
    if (fresh instanceof ReconnectError) {
      // Under the lock as well, so that an athlete who connects just now is not marked after it.
      await setAthleteState(tx, athleteId, 'reconnect', fresh.message);
      return fresh;
    }
    await saveTokens(tx, athleteId, sealTokens(deps.secretBox, fresh));
    deps.metrics.tokenRefreshes.inc({ result: 'refreshed' });
    return fresh.access_token;
  };

  return {
    get: async (athleteId, known, rejected) => {
      if (known && rejected === undefined && holds(known.expiresAt)) return deps.secretBox.open(known.accessToken);
      try {
        // The lock is held over the provider's answer and freed by the commit that makes the new pair
        // durable: whoever waited finds it, and nobody spends an old refresh token twice.
        // Never run twice: the provider takes a refresh token once.
        const token = await deps.database.transaction((tx) => getLocked(tx, athleteId, rejected), { tries: 1 });
        if (token instanceof ReconnectError) throw token;
        return token;
      } catch (error) {
        deps.metrics.tokenRefreshes.inc({ result: error instanceof ReconnectError ? 'refused' : 'failed' });
        throw error;
      }
    },
  };
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
    const refused = error instanceof ProviderError && (error.code === 'REFUSED' || error.code === 'UNAUTHORIZED');
    if (!refused) throw error;
    return new ReconnectError(
      `The provider refuses to refresh the token of athlete ${athleteId}; they must connect again.`,
      { cause: error },
    );
  }
}
