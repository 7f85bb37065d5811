import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { PgBoss } from 'pg-boss';
import type { Int64 } from '../domain/int64.ts';
import type { Database } from '../infra/database.ts';
import type { Logger } from '../infra/logger.ts';
import { notify } from '../infra/notify.ts';
import type { SecretBox } from '../infra/secret-box.ts';
import { nameOf, type Provider } from '../provider/client.ts';
import { reopenJobs } from '../queue/requests.ts';
import { lockTokens, saveAthlete } from '../store/athletes.ts';
import { findJobsRefusedForAthlete, lockJobsOfAthlete } from '../store/fetch-jobs.ts';
import { useOauthState } from '../store/oauth-states.ts';
import { visitAtOnce } from '../store/polling-sweeps.ts';
import { sealTokens } from './access-token.ts';

/** The callback cannot be accepted: a forged or old state, or an answer without an athlete. */
export class ConnectError extends Error {
  override name = 'ConnectError';
  readonly code = 'CONNECT';
}

/** The provider's way of granting access: off to the provider, and back with a code. */
export interface ConnectAthlete {
  /**
   * The address to send the athlete's browser to.
   * @param browser a secret that this browser alone has, in a cookie: a state that is sent on to another is refused
   */
  begin(browser: string): string;
  /**
   * Exchanges the code for tokens and keeps them; an athlete who connects again loses nothing, and what
   * failed for want of access is tried again. Polling visits them at once.
   * @param scope what the athlete granted, which may be less than was asked for
   * @throws ConnectError; ProviderError
   */
  finish(answer: {
    code: string;
    scope: string;
    state: string;
    browser: string;
  }): Promise<{ athleteId: Int64; name: string; scopeSuffices: boolean }>;
  /** @throws ConnectError when the state is not one that begin made for this browser within ten minutes, or was used */
  useState(state: string, browser: string): Promise<void>;
}

export const WANTED_SCOPE = 'read,activity:read_all';
export const STATE_MS = 600_000;

export function createConnectAthlete(deps: {
  database: Database;
  boss: PgBoss;
  provider: Provider;
  secretBox: SecretBox;
  logger: Logger;
  now: () => number;
  redirectUri: string;
  stateSecret: string;
}): ConnectAthlete {
  const sign = (text: string) =>
    createHmac('sha256', deps.stateSecret).update(`oauth state ${text}`).digest('base64url');

  const useState = async (state: string, browser: string): Promise<void> => {
    const [expires = '', nonce = '', signature = ''] = state.split('.');
    const expected = Buffer.from(sign(`${expires}.${nonce}.${browser}`));
    const given = Buffer.from(signature);
    if (given.length !== expected.length || !timingSafeEqual(given, expected)) {
      throw new ConnectError('This browser did not begin here. Begin at /api/provider/connect.');
    }
    if (Number(expires) < deps.now())
      throw new ConnectError('The state is more than ten minutes old. Begin again at /api/provider/connect.');
    if (!(await useOauthState(deps.database, nonce, new Date(Number(expires)))))
      throw new ConnectError('The state was used before. Begin again at /api/provider/connect.');
  };

  return {
    useState,
    begin: (browser) => {
      const text = `${deps.now() + STATE_MS}.${randomBytes(12).toString('base64url')}`;
      return deps.provider.authorizeUrl({
        redirectUri: deps.redirectUri,
        scope: WANTED_SCOPE,
        state: `${text}.${sign(`${text}.${browser}`)}`,
      });
    },
    finish: async ({ code, scope, state, browser }) => {
      await useState(state, browser);
      const tokens = await deps.provider.exchangeCode(code);
      if (!tokens.athlete) throw new ConnectError('The provider did not say whose access was granted. Try again.');
      const athleteId = tokens.athlete.id;
      const name = nameOf(tokens.athlete);
      const scopeSuffices = /(^|,| )activity:read(_all)?(,| |$)/.test(scope);
      const reopened = await deps.database.transaction(async (tx) => {
        await lockTokens(tx, athleteId);
        await lockJobsOfAthlete(tx, athleteId);
        await saveAthlete(tx, {
          athleteId,
          name,
          scope,
          state: scopeSuffices ? 'healthy' : 'scope',
          stateDetail: scopeSuffices
            ? undefined
            : `Granted "${scope}"; reading activities needs activity:read or activity:read_all.`,
          ...sealTokens(deps.secretBox, tokens),
        });
        await notify(tx, 'athlete');
        if (!scopeSuffices) return 0;
        await visitAtOnce(tx, athleteId);
        return reopenJobs(deps.boss, tx, await findJobsRefusedForAthlete(tx, athleteId));
      });
      deps.logger.info('athlete connected', { component: 'connect', athleteId, scope, reopenedJobs: reopened });
      return { athleteId, name, scopeSuffices };
    },
  };
}
