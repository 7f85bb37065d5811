import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts';

const redirectUri = 'http://localhost:9/api/provider/callback';

describe('the simulated provider: authorisation', () => {
  let simulator: Simulator;

  beforeEach(async () => {
    simulator = await startSimulator();
    simulator.addAthlete({ id: 42, name: 'Ada Abbott' });
  });
  afterEach(() => simulator.close());

  const authorizeUrl = (extra: Record<string, string> = {}) => {
    const query = {
      client_id: 'simulator-client',
      redirect_uri: redirectUri,
      response_type: 'code',
      scope: 'read,activity:read_all',
      state: 's&1',
      ...extra,
    };
    return `${simulator.url}/oauth/authorize?${new URLSearchParams(query)}`;
  };
  const follow = async (url: string, init: RequestInit = {}) => {
    const response = await fetch(url, { redirect: 'manual', ...init });
    return { status: response.status, to: new URL(response.headers.get('location') ?? 'none:') };
  };
  const token = (fields: Record<string, string>) =>
    fetch(`${simulator.url}/oauth/token`, {
      method: 'POST',
      body: new URLSearchParams({ client_id: 'simulator-client', client_secret: 'simulator-secret', ...fields }),
    });
  const checkToken = async (accessToken: string) => {
    const response = await fetch(`${simulator.url}/api/v3/athlete`, {
      headers: { Authorization: `Bearer ${accessToken}` },
    });
    return response.status;
  };

  it('asks for consent on a page that lists athletes and scopes', async () => {
    const page = await (await fetch(authorizeUrl({ state: '"><script>' }))).text();
    expect(page).toContain('Ada Abbott (42)');
    expect(page).toContain('value="activity:read_all" checked');
    expect(page).toContain('value="deny"');
    expect(page).not.toContain('"><script>');
  });

  it('redirects the person with a code, the scopes left ticked, and the state', async () => {
    const form = new URLSearchParams({ client_id: 'simulator-client', redirect_uri: redirectUri, state: 's&1' });
    form.append('athlete', '42');
    form.append('scope', 'read');
    form.append('scope', 'activity:read');
    form.append('decision', 'authorize');
    const { status, to } = await follow(`${simulator.url}/oauth/authorize`, { method: 'POST', body: form });
    expect(status).toBe(302);
    expect(to.origin + to.pathname).toBe(redirectUri);
    expect(to.searchParams.get('state')).toBe('s&1');
    expect(to.searchParams.get('scope')).toBe('read,activity:read');
    expect(to.searchParams.get('code')).toMatch(/^[0-9a-f]{40}$/);
  });

  it('redirects the person with access_denied', async () => {
    const form = new URLSearchParams({ client_id: 'simulator-client', redirect_uri: redirectUri, decision: 'deny' });
    const { to } = await follow(`${simulator.url}/oauth/authorize`, { method: 'POST', body: form });
    expect(to.searchParams.get('error')).toBe('access_denied');
    expect(to.searchParams.has('code')).toBe(false);
    expect((await follow(authorizeUrl({ auto: 'deny' }))).to.searchParams.get('error')).toBe('access_denied');
  });

  it('consents automatically when the address says so', async () => {
    const asked = await follow(authorizeUrl({ auto: '1', athlete: '42', grant: 'read' }));
    expect(asked.to.searchParams.get('scope')).toBe('read');
    const set = await follow(authorizeUrl({ auto: '1' }));
    expect(set.to.searchParams.get('scope')).toBe('read,activity:read_all');
    expect(set.to.searchParams.get('state')).toBe('s&1');
  });

  it('refuses an unknown client and a missing redirect address', async () => {
    const wrongClient = await fetch(authorizeUrl({ client_id: 'other' }));
    expect(wrongClient.status).toBe(400);
    expect(await wrongClient.json()).toEqual({
      message: 'Bad Request',
      errors: [{ resource: 'Application', field: 'client_id', code: 'invalid' }],
    });
    expect((await fetch(authorizeUrl({ redirect_uri: '' }))).status).toBe(400);
  });

  it('gives tokens and the athlete for a code, once', async () => {
    const { to } = await follow(authorizeUrl({ auto: '1', athlete: '42' }));
    const code = to.searchParams.get('code') ?? '';
    const first = await token({ grant_type: 'authorization_code', code });
    expect(first.status).toBe(200);
    const body = (await first.json()) as Record<string, unknown> & { access_token: string; expires_at: number };
    expect(body).toMatchObject({ token_type: 'Bearer', expires_in: 21_600, athlete: { id: 42, firstname: 'Ada' } });
    expect(Math.abs(body.expires_at - Date.now() / 1_000 - 21_600)).toBeLessThan(5);
    expect(await checkToken(body.access_token)).toBe(200);

    const second = await token({ grant_type: 'authorization_code', code });
    expect(second.status).toBe(400);
    expect(await second.json()).toEqual({
      message: 'Bad Request',
      errors: [{ resource: 'AuthorizationCode', field: 'code', code: 'invalid' }],
    });
  });

  it('replaces the refresh token, and the old one is invalid at once', async () => {
    const { refreshToken } = simulator.grantTokens(42);
    const first = await token({ grant_type: 'refresh_token', refresh_token: refreshToken });
    const body = (await first.json()) as Record<string, string>;
    expect(body.refresh_token).not.toBe(refreshToken);
    expect(body).not.toHaveProperty('athlete');
    const lost = await token({ grant_type: 'refresh_token', refresh_token: refreshToken });
    expect(lost.status).toBe(400);
    expect(await lost.json()).toMatchObject({ errors: [{ resource: 'RefreshToken', code: 'invalid' }] });
    expect((await token({ grant_type: 'refresh_token', refresh_token: body.refresh_token ?? '' })).status).toBe(200);
  });

  it('takes JSON as well as a form, and refuses a wrong secret with 401', async () => {
    const { refreshToken } = simulator.grantTokens(42);
    const body = { client_id: 'simulator-client', grant_type: 'refresh_token', refresh_token: refreshToken };
    const post = (client_secret: string) =>
      fetch(`${simulator.url}/oauth/token`, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify({ ...body, client_secret }),
      });
    expect((await post('wrong')).status).toBe(401);
    expect((await post('simulator-secret')).status).toBe(200);
  });

  it('ends every token on deauthorisation', async () => {
    const { accessToken, refreshToken } = simulator.grantTokens(42);
    const answer = await fetch(`${simulator.url}/oauth/deauthorize`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${accessToken}` },
    });
    expect(await answer.json()).toEqual({ access_token: accessToken });
    expect(await checkToken(accessToken)).toBe(401);
    expect((await token({ grant_type: 'refresh_token', refresh_token: refreshToken })).status).toBe(400);
  });

  it('lets access tokens end early: by request or by their lifetime', async () => {
    const first = simulator.grantTokens(42);
    simulator.invalidateAccessToken('42');
    expect(await checkToken(first.accessToken)).toBe(401);
    expect((await token({ grant_type: 'refresh_token', refresh_token: first.refreshToken })).status).toBe(200);

    const second = simulator.grantTokens(42, 'read', 60);
    expect(await checkToken(second.accessToken)).toBe(200);
    simulator.settings.clockOffsetMs = 61_000;
    expect(await checkToken(second.accessToken)).toBe(401);

    const third = simulator.grantTokens(42);
    simulator.revoke(42);
    expect((await token({ grant_type: 'refresh_token', refresh_token: third.refreshToken })).status).toBe(400);
  });
});
