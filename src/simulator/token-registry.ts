import { randomBytes } from 'node:crypto';

/** What an athlete has allowed the application. */
export interface Grant {
  readonly athleteId: string;
  /** Comma-separated, as it was granted. */
  readonly scope: string;
}

/** A pair of tokens; `expiresAt` is in epoch seconds of the provider's clock. */
export interface TokenPair {
  accessToken: string;
  refreshToken: string;
  expiresAt: number;
  expiresIn: number;
}

interface AccessToken {
  grant: Grant;
  expiresAtMs: number;
}

/** Valid codes, access tokens and refresh tokens. */
export class TokenRegistry {
  readonly #now: () => number;
  readonly #codes = new Map<string, Grant>();
  readonly #accessTokens = new Map<string, AccessToken>();
  readonly #refreshTokens = new Map<string, Grant>();

  constructor(now: () => number) {
    this.#now = now;
  }

  /** A code that {@link redeemCode} takes once. */
  issueCode(grant: Grant): string {
    const code = randomBytes(20).toString('hex');
    this.#codes.set(code, grant);
    return code;
  }

  /** The grant behind a code; looking it up spends the code. */
  redeemCode(code: string): Grant | undefined {
    const grant = this.#codes.get(code);
    this.#codes.delete(code);
    return grant;
  }

  /** A new pair of tokens, the access token living that many seconds. */
  issuePair(grant: Grant, seconds: number): TokenPair {
    const accessToken = randomBytes(20).toString('hex');
    const refreshToken = randomBytes(20).toString('hex');
    const expiresAtMs = this.#now() + seconds * 1_000;
    this.#accessTokens.set(accessToken, { grant, expiresAtMs });
    this.#refreshTokens.set(refreshToken, grant);
    return { accessToken, refreshToken, expiresAt: Math.floor(expiresAtMs / 1_000), expiresIn: seconds };
  }

  /** The grant behind a refresh token, which becomes invalid at once; its successor comes from {@link issuePair}. */
  spendRefreshToken(refreshToken: string): Grant | undefined {
    const grant = this.#refreshTokens.get(refreshToken);
    this.#refreshTokens.delete(refreshToken);
    return grant;
  }

  /** The grant behind a refresh token, which stays valid. */
  peekRefreshToken(refreshToken: string): Grant | undefined {
    return this.#refreshTokens.get(refreshToken);
  }

  /** The grant behind a valid access token. */
  grantOf(accessToken: string): Grant | undefined {
    const known = this.#accessTokens.get(accessToken);
    if (known === undefined) return undefined;
    if (known.expiresAtMs > this.#now()) return known.grant;
    this.#accessTokens.delete(accessToken);
    return undefined;
  }

  /** Ends an athlete's access tokens; refresh tokens still work. */
  invalidateAccessTokens(athleteId: string): void {
    forgetAthlete(this.#accessTokens, athleteId, (token) => token.grant);
  }

  /** Ends everything the athlete has granted. */
  revoke(athleteId: string): void {
    this.invalidateAccessTokens(athleteId);
    forgetAthlete(this.#refreshTokens, athleteId, (grant) => grant);
    forgetAthlete(this.#codes, athleteId, (grant) => grant);
  }
}

function forgetAthlete<T>(tokens: Map<string, T>, athleteId: string, grantOf: (token: T) => Grant): void {
  for (const [key, token] of tokens) {
    if (grantOf(token).athleteId === athleteId) tokens.delete(key);
  }
}
