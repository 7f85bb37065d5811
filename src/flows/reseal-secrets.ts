import type { Database } from '../infra/database.ts';
import { type SecretBox, SecretBoxError } from '../infra/secret-box.ts';
import { listSecretsOfOtherKeys, resealSecrets } from '../store/endpoints.ts';

/**
 * Encrypts the endpoints' secrets that were sealed with an older key with the newest one, so that the older keys can be removed.
 * @returns how many endpoints' secrets were sealed again, and of how many no configured key opens them
 */
export async function resealEndpointSecrets(
  database: Database,
  secretBox: SecretBox,
): Promise<{ resealed: number; unreadable: number }> {
  const result = { resealed: 0, unreadable: 0 };
  const reseal = (sealed: string) => secretBox.seal(secretBox.open(sealed));
  for (const endpoint of await listSecretsOfOtherKeys(database, secretBox.prefix)) {
    try {
      const secret = reseal(endpoint.secret);
      const formerSecret = endpoint.formerSecret === null ? null : reseal(endpoint.formerSecret);
      if (await resealSecrets(database, endpoint, { secret, formerSecret })) result.resealed += 1;
    } catch (error) {
      if (!(error instanceof SecretBoxError)) throw error;
      result.unreadable += 1;
    }
  }
  return result;
}
