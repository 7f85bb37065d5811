import { athleteJson } from './activity-json.ts';
import type { Announcer } from './announcer.ts';
import { type AddRoute, type Answer, answerError, answerJson, invalid, parameter, unauthorized } from './answer.ts';
import { answerConsentPage } from './pages.ts';
import type { Settings } from './settings.ts';
import type { Grant, TokenPair, TokenRegistry } from './token-registry.ts';
import type { World } from './world.ts';

/** `/oauth/…`: consent, tokens, and deauthorisation. */
export function addOauthRoutes(
  add: AddRoute,
  settings: Settings,
  world: World,
  tokens: TokenRegistry,
  announcer: Announcer,
): void {
  // The consent page, or at once the redirect: with `auto=1` in the query (then also `athlete`, and `grant` for the
  // scopes to allow), or with `auto=deny`.
  add('get', '/oauth/authorize', (request) => {
    const redirectUri = parameter(request, 'redirect_uri') ?? '';
    const state = parameter(request, 'state') ?? '';
    const scopes = listOf(parameter(request, 'scope') ?? 'read');
    const mistake = mistakeIn(parameter(request, 'client_id'), redirectUri);
    if (mistake !== undefined) return mistake;
    if (parameter(request, 'response_type') !== 'code') return invalid('response_type');
    const auto = parameter(request, 'auto');
    if (auto === undefined) {
      return answerConsentPage({ clientId: settings.clientId, redirectUri, scopes, state }, world.athletes);
    }
    if (auto === 'deny') return redirect(redirectUri, { state, error: 'access_denied' });
    const athleteId = parameter(request, 'athlete') ?? world.athletes[0]?.id ?? '';
    return approve(athleteId, listOf(parameter(request, 'grant') ?? scopes.join(',')), redirectUri, state);
  });

  add('post', '/oauth/authorize', (request) => {
    const redirectUri = parameter(request, 'redirect_uri') ?? '';
    const state = parameter(request, 'state') ?? '';
    const mistake = mistakeIn(parameter(request, 'client_id'), redirectUri);
    if (mistake !== undefined) return mistake;
    if (parameter(request, 'decision') !== 'authorize') return redirect(redirectUri, { state, error: 'access_denied' });
    const scopes = listOf(parameter(request, 'scope') ?? '');
    return approve(parameter(request, 'athlete') ?? '', scopes, redirectUri, state);
  });

  add('post', '/oauth/token', (request) => {
    const isApplication =
      parameter(request, 'client_id') === settings.clientId &&
      parameter(request, 'client_secret') === settings.clientSecret;
    if (!isApplication) return unauthorized;
    switch (parameter(request, 'grant_type')) {
      case 'authorization_code': {
        const grant = tokens.redeemCode(parameter(request, 'code') ?? '');
        if (grant === undefined) return answerError(400, 'Bad Request', 'AuthorizationCode', 'code', 'invalid');
        return newPair(grant, true);
      }
      case 'refresh_token': {
        const grant = tokens.spendRefreshToken(parameter(request, 'refresh_token') ?? '');
        if (grant === undefined) return answerError(400, 'Bad Request', 'RefreshToken', 'refresh_token', 'invalid');
        return newPair(grant, false);
      }
      default:
        return invalid('grant_type');
    }
  });

  add('post', '/oauth/deauthorize', (request, bearer) => {
    const accessToken = parameter(request, 'access_token');
    const grant = accessToken === undefined ? bearer : tokens.grantOf(accessToken);
    if (grant === undefined) return unauthorized;
    void announcer.deauthorize(grant.athleteId);
    return answerJson(
      200,
      JSON.stringify({ access_token: accessToken ?? request.headers.authorization?.slice('Bearer '.length) }),
    );
  });

  const approve = (athleteId: string, scopes: readonly string[], redirectUri: string, state: string): Answer => {
    if (world.athlete(athleteId) === undefined) return invalid('athlete');
    const scope = scopes.join(',');
    return redirect(redirectUri, { state, code: tokens.issueCode({ athleteId, scope }), scope });
  };

  const mistakeIn = (clientId: string | undefined, redirectUri: string): Answer | undefined => {
    if (clientId !== settings.clientId) return invalid('client_id');
    if (!/^https?:\/\//.test(redirectUri) || !URL.canParse(redirectUri)) return invalid('redirect_uri');
    return undefined;
  };

  const newPair = (grant: Grant, withAthlete: boolean): Answer => {
    const pair = tokens.issuePair(grant, settings.accessTokenSeconds);
    const athlete = withAthlete ? world.athlete(grant.athleteId) : undefined;
    return answerJson(200, tokenJson(pair, athlete === undefined ? undefined : athleteJson(athlete)));
  };
}

function listOf(text: string): string[] {
  return text.split(',').filter(Boolean);
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

function redirect(redirectUri: string, values: Record<string, string>): Answer {
  const url = new URL(redirectUri);
  for (const [name, value] of Object.entries(values)) url.searchParams.set(name, value);
  return { status: 302, body: '', headers: { Location: url.href } };
}
