import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { answerJson, startHostileProvider } from '../support/hostile-provider.ts';
import { keepLog } from '../support/kept-log.ts';
import { ADMIN_TOKEN, cookieOf, type Rig, startRig, VERIFY_TOKEN } from '../support/service.ts';
import { signIn } from '../support/sign-in.ts';

const CLIENT_SECRET = 'simulator-secret';
let rig: Rig;
const { logger, lines } = keepLog();

beforeAll(async () => {
  // Jobs are fetched by replicas alone.
  rig = await startRig({ logger, env: { FETCH_TIMEOUT_MS: '300', SERVICE_ROLES: 'web' } });
});
afterAll(() => rig.close());

describe('every page and answer', () => {
  it.each([
    '/',
    '/sign-in',
    '/admin',
    '/admin/jobs/1',
    '/nowhere',
    '/api/admin/activity-jobs',
    '/api/openapi.json',
    '/api/provider/connect',
    '/api/provider/callback?state=forged&error=access_denied',
    '/healthz',
  ])('%s carries the security headers, and no cookie unless it starts a session', async (path) => {
    const response = await fetch(`${rig.service.url}${path}`, { redirect: 'manual' });
    await response.arrayBuffer();
    const { headers } = response;
    const policy = headers.get('content-security-policy') ?? '';
    expect(policy).toMatch(/default-src 'none'.*script-src 'self'.*frame-ancestors 'none'/);
    expect(policy).not.toMatch(/unsafe|\*/);
    expect(headers.get('x-content-type-options')).toBe('nosniff');
    expect(headers.get('x-frame-options')).toBe('SAMEORIGIN');
    expect(headers.get('strict-transport-security')).toMatch(/max-age=\d{7,}/);
    // The callback's address contains the code, which must not leak.
    const isCallback = path.startsWith('/api/provider/callback');
    expect(headers.get('referrer-policy')).toBe(isCallback ? 'no-referrer' : 'same-origin');
    expect(headers.get('x-powered-by')).toBeNull();
    expect(headers.get('access-control-allow-origin')).toBeNull();
    if (path !== '/api/provider/connect') expect(headers.get('set-cookie')).toBeNull();
  });

  it('the pages hold no script, style or address that the policy would refuse', async () => {
    for (const path of ['/sign-in', '/admin']) {
      const html = await (await fetch(`${rig.service.url}${path}`)).text();
      expect(html).not.toMatch(/<style|style="|<script(?![^>]*\bsrc=)|\bon[a-z]+="|https?:\/\//);
    }
  });
});

describe('the session cookie', () => {
  it('cannot be read by scripts, other sites or over plain http, and expires', async () => {
    const secure = await rig.startReplica({ NEXT_PUBLIC_BASE_URL: 'https://sync.example.com' });
    const cookie = (await signIn(secure.url, ADMIN_TOKEN)).headers.get('set-cookie');
    expect(cookie).toMatch(/; Max-Age=43200;/);
    expect(cookie).toMatch(/^__Host-activity_sync_session=/);
    for (const attribute of ['; Path=/', '; HttpOnly', '; Secure', '; SameSite=Strict'])
      expect(cookie).toContain(attribute);
    expect(cookie).not.toMatch(/Domain=/);
    expect(cookie).not.toContain(ADMIN_TOKEN);
  });

  it('is refused once a letter of it is changed', async () => {
    const [cookie = ''] = ((await signIn(rig.service.url, ADMIN_TOKEN)).headers.get('set-cookie') ?? '').split(';');
    const [name = '', value = ''] = cookie.split('=');
    const look = async (session: string) => {
      const answer = await fetch(`${rig.service.url}/api/admin/session`, { headers: { cookie: `${name}=${session}` } });
      await answer.arrayBuffer();
      return answer.status;
    };
    expect(await look(value)).toBe(200);
    const flipped = value.startsWith('A') ? `B${value.slice(1)}` : `A${value.slice(1)}`;
    for (const forged of [flipped, value.slice(1), `${value}A`, 'admin', '']) expect(await look(forged)).toBe(401);
  });

  it('is given by the form only to our own pages', async () => {
    const { url } = rig.service;
    expect((await signIn(url, ADMIN_TOKEN, { origin: 'https://evil.example' })).status).toBe(403);
    expect((await signIn(url, ADMIN_TOKEN, { 'sec-fetch-site': 'cross-site' })).status).toBe(403);
  });
});

describe('a failing call that carries the client secret', () => {
  it.each([
    { kind: 'status', status: 500 },
    { kind: 'status', status: 401 },
    { kind: 'cut' },
    { kind: 'hang' },
    { kind: 'garbage' },
    { kind: 'wrongType' },
  ] as const)('shows it in no answer and no line of the log: %j', async (fault) => {
    const active = rig.simulator.faults.add({ ...fault, match: { path: /push_subscriptions|oauth/ } });
    const answers: string[] = [];
    const take = async (response: Promise<Response>) => answers.push(await (await response).text());
    await take(rig.admin('/api/admin/webhooks'));
    await take(rig.admin('/api/admin/webhooks', { method: 'POST' }));
    await take(rig.admin('/api/admin/webhooks?id=5', { method: 'DELETE' }));
    await take(rig.admin('/api/admin/webhooks/doctor'));
    const begun = await fetch(`${rig.service.url}/api/provider/connect`, { redirect: 'manual' });
    const cookie = cookieOf(begun);
    const state = new URL(begun.headers.get('location') ?? '').searchParams.get('state') ?? '';
    await take(
      fetch(
        `${rig.service.url}/api/provider/callback?${new URLSearchParams({ state, code: 'secret-code', scope: 'read' })}`,
        { headers: { cookie } },
      ),
    );
    active.remove();
    expect(answers.join()).toMatch(/provider/i);
    for (const secret of [CLIENT_SECRET, VERIFY_TOKEN, ADMIN_TOKEN, 'secret-code'])
      expect(answers.join() + lines.join()).not.toContain(secret);
  });
});

describe('a provider that echoes the request in its refusal', () => {
  it('gets no secret onto the public page, into an answer, a job’s error or the log', async () => {
    const athleteId = await rig.connectAthlete();
    const accessToken = await rig.service.accessTokens.get(athleteId);
    const hostile = await startHostileProvider();
    hostile.answer = ({ url, headers, body }, response) =>
      answerJson(response, 400, { message: `${body} ${headers.authorization ?? ''} ${url}` });
    const replica = await rig.startReplica({ PROVIDER_API_URL: hostile.origin, SERVICE_ROLES: 'web,fetch' });
    const texts: string[] = [];
    const take = async (path: string, init: RequestInit = {}) => {
      const headers = { authorization: `Bearer ${ADMIN_TOKEN}`, ...init.headers };
      const answer = await fetch(`${replica.url}${path}`, { redirect: 'manual', ...init, headers });
      texts.push(await answer.text());
      return answer;
    };
    await take('/api/admin/webhooks');
    await take('/api/admin/webhooks', { method: 'POST' });
    await take('/api/admin/webhooks?id=5', { method: 'DELETE' });
    await take('/api/admin/webhooks/doctor');
    const begun = await take('/api/provider/connect');
    const state = new URL(begun.headers.get('location') ?? '').searchParams.get('state') ?? '';
    const cookie = cookieOf(begun);
    const callback = `/api/provider/callback?${new URLSearchParams({ state, code: 'secret-code', scope: 'read' })}`;
    const page = await take(callback, { headers: { accept: 'text/html', cookie } });
    expect(page.status).toBe(502);
    expect(texts.at(-1)).toContain('The provider could not be reached, or did not accept the code.');
    expect(texts.at(-1)).not.toContain('redacted');

    await rig.post({
      object_type: 'activity',
      object_id: 4711,
      aspect_type: 'create',
      owner_id: Number(athleteId),
      subscription_id: 1,
      event_time: Math.floor(Date.now() / 1000),
    });
    const { error } = await rig.untilJob('4711', (job) => job.error !== null);
    expect(error).toContain('HTTP 400 (');
    texts.push(String(error));

    const shown = texts.join() + lines.join();
    for (const secret of [CLIENT_SECRET, VERIFY_TOKEN, 'secret-code', accessToken]) expect(shown).not.toContain(secret);
    await hostile.close();
  });
});

describe('a provider that redirects', () => {
  it('is not followed: nothing leaves for another origin, least of all a token', async () => {
    const visits: string[] = [];
    const elsewhere = createServer((request, response) => {
      visits.push(request.url ?? '');
      response.end('[]');
    });
    const provider = createServer((_request, response) => {
      response.writeHead(302, { location: `http://127.0.0.1:${(elsewhere.address() as AddressInfo).port}/stolen` });
      response.end();
    });
    for (const server of [elsewhere, provider]) {
      server.listen(0, '127.0.0.1');
      await once(server, 'listening');
    }
    const origin = `http://127.0.0.1:${(provider.address() as AddressInfo).port}`;
    const replica = await rig.startReplica({ PROVIDER_API_URL: origin });
    const answer = await fetch(`${replica.url}/api/admin/webhooks`, {
      headers: { authorization: `Bearer ${ADMIN_TOKEN}` },
    });
    expect(answer.status).toBe(502);
    expect(await answer.text()).toContain('HTTP 302');
    await expect(replica.provider.getAthlete('access-token')).rejects.toThrow('HTTP 302');
    await expect(replica.provider.refreshToken('refresh-token')).rejects.toThrow('HTTP 302');
    expect(visits).toEqual([]);
    for (const server of [elsewhere, provider]) {
      server.close();
      server.closeAllConnections();
    }
  });
});
