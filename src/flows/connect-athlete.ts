import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { PgBoss } from 'pg-boss';
import type { Int64 } from '../domain/int64.ts';
import type { Database } from '../infra/database.ts';
import type { Logger } from '../infra/logger.ts';
import { notify } from '../infra/notify.ts';
import type { SecretBox } from '../infra/secret-box.ts';
import { nameOf, type Provider } from '../provider/client.ts';
import { lockTokens, saveAthlete } from '../store/athletes.ts';
import { lockJobsOfAthlete } from '../store/fetch-jobs.ts';
import { useOauthState } from '../store/oauth-states.ts';
import { visitAtOnce } from '../store/polling-sweeps.ts';
import { sealTokens } from './access-token.ts';
import { reopenRefused } from './reopen-refused.ts';

/** The callback cannot be accepted: a forged or old state, or an answer without an athlete. */
export class ConnectError extends Error {
  override name = 'ConnectError';
  readonly code = 'CONNECT';
}

/** What an application requests a connection for. */
export interface ConnectLink {
  /** The application's own id for the user. */
  externalId: string;
  /** Where the browser goes afterwards. */
  returnUrl: string;
}

/** The provider's OAuth flow: off to the provider, and back with a code. */
export interface ConnectAthlete {
  /**
   * The address to send the athlete's browser to.
   * @param browser a secret that this browser alone has, in a cookie: a state forwarded to another browser is refused
   * @param link of createLink; undefined for a connection that no application requested
   * @throws ConnectError when the link is not one of ours, or old
   */
  begin(browser: string, link?: string): string;
  /** Makes a link for one user of the application. It is valid for an hour. */
  createLink(link: ConnectLink): { link: string; expiresAt: Date };
  /**
   * Exchanges the code for tokens and keeps them; an athlete who reconnects loses nothing, and jobs
   * that failed for lack of access are retried. Polling visits them at once.
   * @param scope what the athlete granted, which may be less than was requested
   * @throws ConnectError; ProviderError
   */
  finish(answer: {
    code: string;
    scope: string;
    state: string;
    browser: string;
  }): Promise<{ athleteId: Int64; name: string; scopeSuffices: boolean; link: ConnectLink | undefined }>;
  /**
   * @returns the link that the connection began with
   * @throws ConnectError when the state is not one that begin made for this browser within ten minutes, or was used
   */
  useState(state: string, browser: string): Promise<ConnectLink | undefined>;
  /** The link that a state of this browser started from, to start again: also for an expired or used state. */
  linkOf(state: string, browser: string): string | undefined;
}

export const WANTED_SCOPE = 'read,activity:read_all';
export const STATE_MS = 600_000;
const LINK = 'connect link';
const LINK_MS = 3_600_000;

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
  const sign = (purpose: string, text: string) =>
    createHmac('sha256', deps.stateSecret).update(`${purpose} ${text}`).digest('base64url');

  const seal = (payload: string, purpose: string, forMs: number): string => {
    const nonce = randomBytes(12).toString('base64url');
    const text = `${deps.now() + forMs}.${nonce}.${payload}`;
    return `${text}.${sign(purpose, text)}`;
  };

  const open = (text: string, purpose: string): { expires: number; nonce: string; payload: string } | undefined => {
    const [expires = '', nonce = '', payload = '', signature = ''] = text.split('.');
    const expected = Buffer.from(sign(purpose, `${expires}.${nonce}.${payload}`));
    const given = Buffer.from(signature);
    const isOurs = given.length === expected.length && timingSafeEqual(given, expected);
    return isOurs ? { expires: Number(expires), nonce, payload } : undefined;
  };

  // A state carries the link as it was issued: it can be opened again, but only while it is valid.
  const linkIn = (payload: string): string | undefined => payload.replaceAll('~', '.') || undefined;

  const linkOf: ConnectAthlete['linkOf'] = (state, browser) =>
    linkIn(open(state, `oauth state ${browser}`)?.payload ?? '');

  const useState = async (state: string, browser: string): Promise<ConnectLink | undefined> => {
    const opened = open(state, `oauth state ${browser}`);
    if (!opened) throw new ConnectError('This browser did not start the connection. Start at /api/provider/connect.');
    if (opened.expires < deps.now())
      throw new ConnectError('The state is more than ten minutes old. Start again at /api/provider/connect.');
    if (!(await useOauthState(deps.database, opened.nonce, new Date(opened.expires))))
      throw new ConnectError('The state was used before. Start again at /api/provider/connect.');
    const link = linkIn(opened.payload);
    const wanted = link && open(link, LINK)?.payload;
    return wanted ? (JSON.parse(Buffer.from(wanted, 'base64url').toString()) as ConnectLink) : undefined;
  };

  return {
    useState,
    createLink: (link) => ({
      link: seal(Buffer.from(JSON.stringify(link)).toString('base64url'), LINK, LINK_MS),
      expiresAt: new Date(deps.now() + LINK_MS),
    }),
    linkOf,
    begin: (browser, link) => {
      if (link !== undefined) {
        const opened = open(link, LINK);
        if (!opened)
          throw new ConnectError('This link does not come from this service. Ask the application for a new one.');
        if (opened.expires < deps.now())
          throw new ConnectError('This link is more than an hour old. Ask the application for a new one.');
      }
      return deps.provider.authorizeUrl({
        redirectUri: deps.redirectUri,
        scope: WANTED_SCOPE,
        state: seal(link?.replaceAll('.', '~') ?? '', `oauth state ${browser}`, STATE_MS),
      });
    },
    finish: async ({ code, scope, state, browser }) => {
      const link = await useState(state, browser);
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
          externalId: link?.externalId,
          state: scopeSuffices ? 'healthy' : 'scope',
          stateDetail: scopeSuffices
            ? undefined
            : `Granted "${scope}"; reading activities needs activity:read or activity:read_all.`,
          ...sealTokens(deps.secretBox, tokens),
        });
        await notify(tx, 'athlete');
        if (!scopeSuffices) return 0;
        await visitAtOnce(tx, athleteId);
        return reopenRefused(deps.boss, tx, athleteId);
      });
      deps.logger.info('athlete connected', { component: 'connect', athleteId, scope, reopenedJobs: reopened });
      return { athleteId, name, scopeSuffices, link };
    },
  };
}
