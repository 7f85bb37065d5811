import { readFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { LIVE_EVENTS } from '../../src/http/event-stream.ts';
import { ask, type Description, readDescription, send } from '../support/admin.ts';
import { keepLog } from '../support/kept-log.ts';
import { metric } from '../support/metric.ts';
import { problemOf } from '../support/problem.ts';
import { ADMIN_TOKEN, READ_TOKEN, type Rig, startRig } from '../support/service.ts';

let rig: Rig;
let description: Description;

beforeAll(async () => {
  rig = await startRig({ env: { SERVICE_ROLES: 'web', TRUSTED_PROXIES: '1' } });
  description = await readDescription(rig);
});
afterAll(() => rig.close());

const concrete = (path: string) => path.replace(/\{[a-zA-Z]+\}/g, '424242');
const admin = () => description.operations.filter(({ operation }) => operation.security !== undefined);

it('who may only look asks the provider at most once in some seconds, answered or refused', async () => {
  const subscriptionCalls = () => rig.simulator.calls.filter(({ path }) => path.includes('push_subscriptions')).length;
  const look = async (path: string) => {
    const answers = Array.from({ length: 20 }, () => send(rig, 'GET', path, { authorization: `Bearer ${READ_TOKEN}` }));
    return [...new Set((await Promise.all(answers)).map(({ status }) => status))];
  };
  rig.simulator.faults.add({ kind: 'status', status: 503, match: { path: /push_subscriptions/ } });
  expect([await look('/api/admin/webhooks'), await look('/api/admin/webhooks')]).toEqual([[502], [502]]);
  rig.simulator.faults.clear();
  expect(subscriptionCalls()).toBe(1);
  expect(await look('/api/admin/webhooks/doctor')).toEqual([200]);
  expect(await look('/api/admin/webhooks/doctor')).toEqual([200]);
  expect(subscriptionCalls()).toBe(2);
  expect((await ask(rig, 'GET', '/api/admin/webhooks')).status).toBe(200);
  expect(subscriptionCalls()).toBe(3);
});

/** Of the routes that answer nothing without one. */
const REQUIRED_QUERY: Record<string, string> = {
  '/api/admin/search': '?q=1',
  '/api/admin/athlete-names': '?ids=1',
};

describe('every endpoint of the admin interface', () => {
  it('is in the OpenAPI document', () => {
    expect(admin().map(({ method, path }) => `${method} ${path}`)).toEqual(
      expect.arrayContaining([
        'GET /api/admin/activity-jobs',
        'POST /api/admin/activity-jobs',
        'DELETE /api/admin/activity-jobs',
        'GET /api/admin/activity-jobs/{id}',
        'POST /api/admin/activity-jobs/{id}/retry',
        'POST /api/admin/activity-jobs/retry',
        'GET /api/admin/athletes',
        'DELETE /api/admin/athletes/{id}',
        'GET /api/admin/activities',
        'GET /api/admin/activities/{id}',
        'GET /api/admin/activities/{id}/thumbnail',
        'GET /api/admin/webhook-events',
        'POST /api/admin/webhook-events/{id}/replay',
        'GET /api/admin/budget',
        'GET /api/admin/events',
        'GET /api/admin/audit',
        'GET /api/admin/session',
        'POST /api/admin/webhooks',
        'GET /api/admin/webhooks',
        'DELETE /api/admin/webhooks',
      ]),
    );
  });

  it('is called in docs/api.md (npm run docs:api writes it)', async () => {
    const page = await readFile(new URL('../../docs/api.md', import.meta.url), 'utf8');
    const described = description.operations.map(({ method, path }) => `${method} ${path}`);
    const shown = [...page.matchAll(/^### (.+)$/gm)].map((match) => match[1]);
    expect(shown.filter((name) => name !== 'GET /api/openapi.json').sort()).toEqual(
      described.filter((name) => name !== 'GET /api/openapi.json').sort(),
    );
  });

  it('refuses a missing or wrong token: 401', async () => {
    for (const [n, { method, path }] of admin().entries())
      for (const headers of [
        {},
        // Ten of one address would be too many.
        { authorization: 'Bearer admin-token-of-the-tests!', 'x-forwarded-for': `198.51.100.${n}` },
        { cookie: 'activity_sync_session=admin.9999999999999.x' },
      ]) {
        const response = await send(rig, method, concrete(path), headers as Record<string, string>);
        expect([method, path, response.status]).toEqual([method, path, 401]);
        expect(response.headers.get('www-authenticate')).toContain('Bearer');
        await problemOf(response);
      }
  });

  it('allows the read token to read, but not to change: 403', async () => {
    for (const { method, path } of admin().filter(({ method }) => method !== 'GET')) {
      const response = await send(rig, method, concrete(path), { authorization: `Bearer ${READ_TOKEN}` });
      expect([method, path, response.status]).toEqual([method, path, 403]);
      await problemOf(response);
    }
    const jobs = await send(rig, 'GET', '/api/admin/activity-jobs', { authorization: `Bearer ${READ_TOKEN}` });
    expect(jobs.status).toBe(200);
    await jobs.arrayBuffer();
  });

  it('refuses other methods with 405 and lists the allowed ones', async () => {
    for (const path of new Set(description.operations.map((one) => one.path))) {
      const known = description.operations.filter((one) => one.path === path).map(({ method }) => method);
      const response = await send(rig, 'PUT', concrete(path), { authorization: `Bearer ${ADMIN_TOKEN}` });
      expect([path, response.status]).toEqual([path, 405]);
      const allow = response.headers.get('allow')?.split(', ') ?? [];
      expect(allow).toEqual(expect.arrayContaining(known));
      expect(allow.includes('HEAD')).toBe(known.includes('GET'));
      await response.arrayBuffer();
    }
  });

  it('counts methods that no route has as one', async () => {
    const series = (method: string) =>
      metric(rig.service.url, `activity_sync_http_requests_total{route="/style.css",method="${method}",code="405"}`);
    for (const method of ['PROPFIND', 'MKCOL', 'PUT']) await (await send(rig, method, '/style.css')).arrayBuffer();
    expect([await series('other'), await series('PROPFIND')]).toEqual([3, undefined]);
  });

  it('answers HEAD as GET without a body', async () => {
    for (const { path } of admin().filter(({ method, path }) => method === 'GET' && !path.includes('{'))) {
      if (path.startsWith('/api/admin/webhooks')) continue; // asks the provider
      const response = await send(rig, 'HEAD', `${path}${REQUIRED_QUERY[path] ?? ''}`, {
        authorization: `Bearer ${ADMIN_TOKEN}`,
      });
      expect([path, response.status, await response.text()]).toEqual([path, 200, '']);
    }
  });

  it('names unknown query parameters: 400', async () => {
    for (const { method, path, operation } of admin()) {
      if (path === '/api/admin/events') continue;
      const response = await send(
        rig,
        method,
        `${concrete(path)}?nonsense=1`,
        {
          authorization: `Bearer ${ADMIN_TOKEN}`,
          ...(operation.requestBody ? { 'content-type': 'application/json' } : {}),
        },
        operation.requestBody ? '{}' : undefined,
      );
      expect([method, path, response.status]).toEqual([method, path, 400]);
      expect(await problemOf(response)).toMatchObject({
        errors: expect.arrayContaining([{ field: 'query.nonsense', message: 'is unknown' }]),
      });
    }
  });

  it('refuses bodies that are too large, unreadable or of another type', async () => {
    const withBody = description.operations.filter(
      ({ operation, path }) => operation.requestBody && path.startsWith('/api/admin/'),
    );
    expect(withBody.length).toBeGreaterThanOrEqual(3);
    const authorization = `Bearer ${ADMIN_TOKEN}`;
    for (const { method, path } of withBody) {
      const at = concrete(path);
      const json = { authorization, 'content-type': 'application/json' };
      const large = await send(rig, method, at, json, JSON.stringify({ x: 'x'.repeat(65 * 1024) }));
      const broken = await send(rig, method, at, json, '{"activityId": ');
      const plain = await send(rig, method, at, { authorization, 'content-type': 'text/plain' }, '{"activityId": 1}');
      expect([path, large.status, broken.status, plain.status]).toEqual([path, 413, 400, 415]);
      for (const response of [large, broken, plain]) await problemOf(response);
    }
  });

  it('distinguishes a missing body from one of another type', async () => {
    const { hostname, port } = new URL(rig.service.url);
    for (const path of ['/api/admin/activity-jobs', '/api/provider/webhook']) {
      // As curl sends it: no length, where fetch says that it is 0.
      const socket = connect(Number(port), hostname);
      socket.end(
        `POST ${path} HTTP/1.1\r\nHost: ${hostname}\r\nConnection: close\r\nAuthorization: Bearer ${ADMIN_TOKEN}\r\nContent-Type: application/json\r\n\r\n`,
      );
      const answer = await text(socket);
      expect(answer).toMatch(/^HTTP\/1\.1 400 /);
      expect(answer).toContain('"errors":[{"field":"body","message":"is missing"}]');
    }
  });

  it('answers 404 for what does not exist', async () => {
    const response = await send(rig, 'GET', '/api/admin/nothing', { authorization: `Bearer ${ADMIN_TOKEN}` });
    expect((await problemOf(response)).status).toBe(404);
  });

  it('answers as the document says', async () => {
    await ask(rig, 'POST', '/api/admin/activity-jobs', { activityId: '77', athleteId: '7' });
    await rig.post({
      object_type: 'activity',
      object_id: 78,
      aspect_type: 'create',
      owner_id: 7,
      subscription_id: 1,
      event_time: 1_700_000_000,
    });
    const calls: [string, string, unknown?][] = [
      ['GET', '/api/admin/activity-jobs'],
      ['GET', '/api/admin/activity-jobs?limit=500'],
      ['GET', '/api/admin/activity-jobs/1'],
      ['GET', '/api/admin/activity-jobs/99999'],
      ['POST', '/api/admin/activity-jobs', { activityId: '79', athleteId: '7' }],
      ['POST', '/api/admin/activity-jobs', { activityId: '79', athleteId: '7' }],
      ['POST', '/api/admin/activity-jobs', { activityId: '79', athleteId: '8' }],
      ['POST', '/api/admin/activity-jobs/1/retry'],
      ['GET', '/api/admin/athletes'],
      ['GET', '/api/admin/activities'],
      ['GET', '/api/admin/webhook-events'],
      ['GET', '/api/admin/webhook-events/1'],
      ['POST', '/api/admin/webhook-events/1/replay'],
      ['GET', '/api/admin/budget'],
      ['DELETE', '/api/admin/activity-jobs?status=pending'],
      ['GET', '/api/admin/audit'],
      ['GET', '/api/admin/session'],
      ['GET', '/healthz'],
      ['GET', '/readyz'],
      ['GET', '/api/openapi.json'],
    ];
    for (const [method, path, body] of calls)
      expect(description.misfits(method, path, await ask(rig, method, path, body))).toEqual([]);
  });
});

describe('a refusal', () => {
  const misfits = async (method: string, path: string, status: number, headers?: Record<string, string>) => {
    const answer = await ask(rig, method, path, method === 'POST' ? {} : undefined, headers);
    expect([method, path, answer.status]).toEqual([method, path, status]);
    return description.misfits(method, path, answer);
  };

  it('of the provider is answered as the document says: 502, and 404 for what it does not know', async () => {
    expect(await misfits('DELETE', '/api/admin/webhooks?id=5', 404)).toEqual([]);
    const fault = rig.simulator.faults.add({ kind: 'status', status: 400, match: { path: /push_subscriptions/ } });
    for (const method of ['GET', 'POST', 'DELETE'])
      expect(await misfits(method, '/api/admin/webhooks', 502)).toEqual([]);
    fault.remove();
  });

  it('of a sign-in or sign-out from another page is answered as the document says: 403', async () => {
    const answer = await ask(rig, 'DELETE', '/api/admin/session', undefined, { origin: 'https://evil.example' });
    expect([answer.status, description.misfits('DELETE', '/api/admin/session', answer)]).toEqual([403, []]);
    const body = { token: ADMIN_TOKEN };
    const begun = await ask(rig, 'POST', '/api/admin/session', body, { origin: 'https://evil.example' });
    expect([begun.status, description.misfits('POST', '/api/admin/session', begun)]).toEqual([403, []]);
  });
});

describe('the summary of the event stream', () => {
  it('names every event that it sends', () => {
    const events = description.operations.find(({ path }) => path === '/api/admin/events');
    for (const event of LIVE_EVENTS) expect(events?.operation.summary).toMatch(new RegExp(`\\b${event}\\b`));
  });
});

describe('without ADMIN_TOKEN', () => {
  it('the start line and both sign-ins say that the admin interface is closed, and how to open it', async () => {
    const { logger, lines } = keepLog('info');
    const closed = await rig.startReplica({ ADMIN_TOKEN: '' }, undefined, { logger });
    expect(lines.map((line) => JSON.parse(line)).find(({ message }) => message === 'service started')).toMatchObject({
      console: 'closed; to open it, set ADMIN_TOKEN and restart',
    });
    const howToOpen =
      'To open it, set ADMIN_TOKEN to a random string of at least 16 characters and restart the service.';
    const page = await (await fetch(`${closed.url}/sign-in`)).text();
    expect(page).toContain(howToOpen);
    expect(page).not.toContain('<form');
    for (const [path, body] of [
      ['/api/admin/session', JSON.stringify({ token: ADMIN_TOKEN })],
      ['/sign-in', new URLSearchParams({ token: ADMIN_TOKEN })],
    ] as const) {
      const headers = {
        origin: closed.url,
        ...(typeof body === 'string' ? { 'content-type': 'application/json' } : {}),
      };
      const response = await fetch(`${closed.url}${path}`, { method: 'POST', headers, body });
      expect([response.status, await response.json()]).toEqual([
        401,
        expect.objectContaining({ type: 'about:blank#adminClosed', detail: expect.stringContaining(howToOpen) }),
      ]);
    }
  });

  it('the admin interface is closed, no session can be started, and the rest is served', async () => {
    const closed = await rig.startReplica({ ADMIN_TOKEN: '' });
    const get = (path: string, init?: RequestInit) => fetch(`${closed.url}${path}`, init);
    for (const authorization of [`Bearer ${ADMIN_TOKEN}`, `Bearer ${READ_TOKEN}`, 'Bearer ', '']) {
      const response = await get('/api/admin/activity-jobs', { headers: { authorization } });
      expect(response.status).toBe(401);
      expect((await problemOf(response)).detail).toContain('ADMIN_TOKEN is not set');
    }
    const session = await get('/api/admin/session', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ token: ADMIN_TOKEN }),
    });
    expect([session.status, session.headers.get('set-cookie')]).toEqual([401, null]);
    await session.arrayBuffer();
    for (const path of ['/healthz', '/api/openapi.json']) {
      const response = await get(path);
      expect(response.status).toBe(200);
      await response.arrayBuffer();
    }
  });
});
