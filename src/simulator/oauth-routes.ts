import { athleteJson } from './activity-json.ts';
import type { Announcer } from './announcer.ts';
import { renderConsentPage } from './consent-page.ts';
import {
  type Answer,
  answerError,
  answerHtml,
  answerJson,
  type Call,
  parameter,
  unauthorized,
  unknownPath,
} from './exchange.ts';
import type { Settings } from './options.ts';
import type { Grant, TokenPair, TokenRegistry } from './token-registry.ts';
import type { World } from './world.ts';

/** `/oauth/…`: consent, tokens, and their end. */
export class OauthRoutes {
  readonly #settings: Settings;
  readonly #world: World;
  readonly #tokens: TokenRegistry;
  readonly #announcer: Announcer;

  constructor(settings: Settings, world: World, tokens: TokenRegistry, announcer: Announcer) {
    this.#settings = settings;
    this.#world = world;
    this.#tokens = tokens;
    this.#announcer = announcer;
  }

  answer(call: Call): Answer {
    switch (`${call.method} ${call.path}`) {
      case 'GET /oauth/authorize':
        return this.#askConsent(call);
      case 'POST /oauth/authorize':
        return this.#takeDecision(call);
      case 'POST /oauth/token':
        return this.#issueTokens(call);
      case 'POST /oauth/deauthorize':
        return this.#deauthorize(call);
      case 'POST /oauth/revoke':
        return this.#revoke(call);
      default:
        return unknownPath;
    }
  }

  /**
   * The consent page, or at once the redirect: with `auto=1` in the query (then also `athlete`, and `grant` for
   * the scopes to allow), with `auto=deny`, or with the setting `autoApprove`.
   */
  #askConsent(call: Call): Answer {
    const query = new URLSearchParams(call.query);
    const redirectUri = query.get('redirect_uri') ?? '';
    const state = query.get('state') ?? '';
    const scopes = (query.get('scope') ?? 'read').split(',').filter(Boolean);
    const mistake = this.#mistakeIn(query.get('client_id'), redirectUri);
    if (mistake !== undefined) return mistake;
    if (query.get('response_type') !== 'code') return invalid('response_type');
    const auto = query.get('auto');
    if (auto === 'deny') return redirect(redirectUri, { state, error: 'access_denied' });
    if (auto === null && this.#settings.autoApprove === undefined) {
      const request = { clientId: this.#settings.clientId, redirectUri, scopes, state };
      return answerHtml(200, renderConsentPage(request, this.#world.athletes));
    }
    const athleteId = query.get('athlete') ?? this.#settings.autoApprove ?? this.#world.athletes[0]?.id ?? '';
    return this.#approve(athleteId, query.get('grant')?.split(',') ?? scopes, redirectUri, state);
  }

  #takeDecision(call: Call): Answer {
    const redirectUri = call.fields.get('redirect_uri') ?? '';
    const state = call.fields.get('state') ?? '';
    const mistake = this.#mistakeIn(call.fields.get('client_id') ?? null, redirectUri);
    if (mistake !== undefined) return mistake;
    if (call.fields.get('decision') !== 'authorize') return redirect(redirectUri, { state, error: 'access_denied' });
    const scopes = (call.fields.get('scope') ?? '').split(',').filter(Boolean);
    return this.#approve(call.fields.get('athlete') ?? '', scopes, redirectUri, state);
  }

  #approve(athleteId: string, scopes: readonly string[], redirectUri: string, state: string): Answer {
    if (this.#world.athlete(athleteId) === undefined) return invalid('athlete');
    const scope = scopes.join(',');
    return redirect(redirectUri, { state, code: this.#tokens.issueCode({ athleteId, scope }), scope });
  }

  #mistakeIn(clientId: string | null, redirectUri: string): Answer | undefined {
    if (clientId !== this.#settings.clientId) return invalid('client_id');
    if (!/^https?:\/\//.test(redirectUri) || !URL.canParse(redirectUri)) return invalid('redirect_uri');
    return undefined;
  }

  #issueTokens(call: Call): Answer {
    if (!this.#isApplication(call)) return unauthorized;
    switch (parameter(call, 'grant_type')) {
      case 'authorization_code': {
        const grant = this.#tokens.redeemCode(parameter(call, 'code') ?? '');
        if (grant === undefined) return answerError(400, 'Bad Request', 'AuthorizationCode', 'code', 'invalid');
        return this.#newPair(grant, true);
      }
      case 'refresh_token': {
        const grant = this.#tokens.spendRefreshToken(parameter(call, 'refresh_token') ?? '');
        if (grant === undefined) return answerError(400, 'Bad Request', 'RefreshToken', 'refresh_token', 'invalid');
        return this.#newPair(grant, false);
      }
      default:
        return invalid('grant_type');
    }
  }

  #newPair(grant: Grant, withAthlete: boolean): Answer {
    const pair = this.#tokens.issuePair(grant, this.#settings.accessTokenSeconds);
    const athlete = withAthlete ? this.#world.athlete(grant.athleteId) : undefined;
    return answerJson(200, tokenJson(pair, athlete === undefined ? undefined : athleteJson(athlete)));
  }

  #deauthorize(call: Call): Answer {
    const accessToken = parameter(call, 'access_token');
    const grant = accessToken === undefined ? call.grant : this.#tokens.grantOf(accessToken);
    if (grant === undefined) return unauthorized;
    void this.#announcer.deauthorize(grant.athleteId);
    return answerJson(200, JSON.stringify({ access_token: accessToken ?? bearerOf(call) }));
  }

  /** The newer form: client credentials and a token of either kind; an unknown token is no error (RFC 7009). */
  #revoke(call: Call): Answer {
    if (!this.#isApplication(call)) return unauthorized;
    const token = parameter(call, 'token') ?? '';
    const grant = this.#tokens.grantOf(token) ?? this.#tokens.peekRefreshToken(token);
    if (grant !== undefined) void this.#announcer.deauthorize(grant.athleteId);
    return answerJson(200, '{}');
  }

  #isApplication(call: Call): boolean {
    const { clientId, clientSecret } = this.#settings;
    const basic = Buffer.from(`${clientId}:${clientSecret}`).toString('base64');
    if (call.headers.authorization === `Basic ${basic}`) return true;
    return parameter(call, 'client_id') === clientId && parameter(call, 'client_secret') === clientSecret;
  }
}

function tokenJson(pair: TokenPair, athlete: string | undefined): string {
  const text = JSON.stringify({
    token_type: 'Bearer',
    expires_at: pair.expiresAt,
    expires_in: pair.expiresIn,
    refresh_token: pair.refreshToken,
    access_token: pair.accessToken,
  });
  return athlete === undefined ? text : `${text.slice(0, -1)},"athlete":${athlete}}`;
}

function invalid(field: string): Answer {
  return answerError(400, 'Bad Request', 'Application', field, 'invalid');
}

function redirect(redirectUri: string, values: Record<string, string>): Answer {
  const url = new URL(redirectUri);
  for (const [name, value] of Object.entries(values)) url.searchParams.set(name, value);
  return { status: 302, body: '', headers: { Location: url.href } };
}

function bearerOf(call: Call): string {
  return (call.headers.authorization ?? '').replace(/^Bearer /i, '');
}
