import type { Int64 } from '../domain/int64.ts';
import type { Database } from '../infra/database.ts';
import type { Logger } from '../infra/logger.ts';
import { SecretBoxError } from '../infra/secret-box.ts';
import type { Provider } from '../provider/client.ts';
import { ProviderError } from '../provider/errors.ts';
import { findAthlete, isAnythingKept } from '../store/athlete-list.ts';
import { forgetAthleteInAudit } from '../store/audit.ts';
import { type AccessTokens, CredentialsError, ReconnectError } from './access-token.ts';
import type { EraseAthlete } from './erase-athlete.ts';

/**
 * Disconnects an athlete: revokes the access at the provider, then erases everything stored about them.
 * @returns whether the provider was notified; undefined when nothing is stored about the athlete
 */
export type DisconnectAthlete = (athleteId: Int64) => Promise<{ providerTold: boolean } | undefined>;

export function createDisconnectAthlete(deps: {
  database: Database;
  provider: Provider;
  accessTokens: AccessTokens;
  erase: EraseAthlete;
  logger: Logger;
}): DisconnectAthlete {
  return async (athleteId) => {
    if (!(await isAnythingKept(deps.database, athleteId))) {
      // The audit recorded the request itself, and may name an athlete who was erased before.
      await deps.database.transaction((tx) => forgetAthleteInAudit(tx, athleteId));
      return undefined;
    }
    const connected = await findAthlete(deps.database, athleteId);
    const providerTold = connected !== undefined && (await tellProvider(deps, athleteId));
    await deps.erase(athleteId);
    return { providerTold };
  };
}

const TOLERATED = [ProviderError, ReconnectError, CredentialsError, SecretBoxError];

// The erasure does not depend on it: the athlete is erased whatever the provider does.
async function tellProvider(
  deps: { provider: Provider; accessTokens: AccessTokens; logger: Logger },
  athleteId: Int64,
): Promise<boolean> {
  try {
    await deps.provider.deauthorize(await deps.accessTokens.get(athleteId));
    return true;
  } catch (error) {
    if (!TOLERATED.some((kind) => error instanceof kind)) throw error;
    // Without the id and the error's text: the log must not keep what is being erased.
    deps.logger.warn('athlete erased, provider not notified of the disconnect', {
      component: 'erasure',
      code: (error as ProviderError).code,
    });
    return false;
  }
}
