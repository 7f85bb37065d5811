import type { Database } from '../infra/database.ts';
import { type SecretBox, SecretBoxError } from '../infra/secret-box.ts';
import { listTokensOfOtherKeys, resealTokens } from '../store/athletes.ts';

/**
 * Encrypts tokens that were sealed with an older key with the newest one, so that the older keys can be removed.
 * A pair that a refresh replaces in the meantime is skipped. Any number of processes may do it at once.
 * @returns how many athletes' tokens were sealed again, and of how many no configured key opens them
 */
export async function resealOutdatedTokens(
  database: Database,
  secretBox: SecretBox,
  signal?: AbortSignal,
): Promise<{ resealed: number; unreadable: number }> {
  const result = { resealed: 0, unreadable: 0 };
  let afterId = '0';
  while (!signal?.aborted) {
    const batch = await listTokensOfOtherKeys(database, secretBox.prefix, afterId, BATCH);
    for (const athlete of batch) {
      const fresh = reseal(secretBox, athlete);
      if (!fresh) result.unreadable += 1;
      else if (await resealTokens(database, athlete, fresh)) result.resealed += 1;
    }
    const last = batch.at(-1);
    if (!last || batch.length < BATCH) break;
    afterId = last.athleteId;
  }
  return result;
}

const BATCH = 200;

interface Pair {
  accessToken: string;
  refreshToken: string;
}

function reseal(secretBox: SecretBox, { accessToken, refreshToken }: Pair): Pair | undefined {
  try {
    return {
      accessToken: secretBox.seal(secretBox.open(accessToken)),
      refreshToken: secretBox.seal(secretBox.open(refreshToken)),
    };
  } catch (error) {
    if (error instanceof SecretBoxError) return undefined;
    throw error;
  }
}
