import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { ask, readDescription } from '../support/admin.ts';
import { type Application, applicationWith, startApplication } from '../support/application.ts';
import { cookieOf, type Rig, startRig } from '../support/service.ts';
import { untilThumbnail } from '../support/thumbnails.ts';

let rig: Rig;
let app: Application;
let reader: Application;
beforeAll(async () => {
  rig = await startRig({ env: { RETURN_ORIGINS: 'https://app.example.com, http://127.0.0.1:9999' } });
  rig.simulator.subscribe(`${rig.service.url}/api/provider/webhook`);
  app = await startApplication(rig);
  reader = await startApplication(rig, 'read');
});
afterAll(() => rig.close());

/** Sends a new athlete through a connect link. @returns where the browser ends up */
async function connectBy(link: string, choice: 'yes' | 'no' = 'yes'): Promise<{ athleteId: string; end: URL }> {
  const { id } = rig.simulator.addAthlete({ name: 'Ada Runner' });
  const begun = await fetch(link, { redirect: 'manual' });
  const consent = new URL(begun.headers.get('location') ?? '');
  consent.searchParams.set('auto', '1');
  consent.searchParams.set('athlete', id);
  const granted = await fetch(consent, { redirect: 'manual' });
  const back = new URL(granted.headers.get('location') ?? '');
  if (choice === 'no') {
    back.searchParams.delete('code');
    back.searchParams.set('error', 'access_denied');
  }
  const cookie = begun.headers
    .getSetCookie()
    .map((one) => one.split(';', 1)[0])
    .join('; ');
  const ended = await fetch(`${rig.service.url}${back.pathname}${back.search}`, {
    redirect: 'manual',
    headers: { cookie },
  });
  expect(ended.status).toBe(302);
  return { athleteId: id, end: new URL(ended.headers.get('location') ?? '') };
}

const linkFor = async (externalId: string, returnUrl = 'https://app.example.com/back?tab=1'): Promise<string> => {
  const { status, body } = await app.call('POST', '/api/v1/connect-links', { externalId, returnUrl });
  expect(status).toBe(201);
  return body.url.replace('http://127.0.0.1:1', rig.service.url);
};

describe('an application’s token', () => {
  it('is shown once, kept hashed, listed by name, and refused from the moment it is revoked', async () => {
    const created = (await ask(rig, 'POST', '/api/admin/api-tokens', { name: 'my app', scope: 'read' })).body;
    const mine = applicationWith(rig, created.token);
    expect((await mine.call('GET', '/api/v1/athletes')).status).toBe(200);
    const { tokens } = (await ask(rig, 'GET', '/api/admin/api-tokens')).body;
    expect(tokens.at(-1)).toMatchObject({
      id: created.id,
      name: 'my app',
      scope: 'read',
      lastUsedAt: expect.any(String),
    });
    expect(JSON.stringify(tokens)).not.toContain(created.token);
    const [row] = await rig.service.database.query('SELECT t::text AS text FROM api_token t WHERE id = $1', [
      created.id,
    ]);
    expect(JSON.stringify(row)).not.toContain(created.token.slice(4));
    expect((await ask(rig, 'DELETE', `/api/admin/api-tokens/${created.id}`)).status).toBe(200);
    const refused = await mine.call('GET', '/api/v1/athletes');
    expect([refused.status, refused.body.detail]).toEqual([401, expect.stringContaining('was revoked')]);
    expect((await ask(rig, 'DELETE', `/api/admin/api-tokens/${created.id}`)).status).toBe(404);
  });

  it('opens none of the operator’s endpoints, and one with the scope read changes nothing', async () => {
    expect((await app.call('GET', '/api/admin/athletes')).status).toBe(401);
    const returnUrl = 'https://app.example.com/';
    const body = { externalId: 'u', returnUrl };
    expect((await reader.call('POST', '/api/v1/connect-links', body)).status).toBe(403);
    expect((await reader.call('POST', '/api/v1/endpoints', { url: 'https://example.com' })).status).toBe(403);
    expect((await applicationWith(rig, 'ast_invented').call('GET', '/api/v1/changes')).status).toBe(401);
    expect((await fetch(`${rig.service.url}/api/v1/changes`)).status).toBe(401);
  });

  it('is limited to a number of requests a minute, which the headers show', async () => {
    const replica = await rig.startReplica({ SERVICE_ROLES: 'web', API_RATE_LIMIT: '3' });
    const get = (token: string) =>
      fetch(`${replica.url}/api/v1/athletes`, { headers: { authorization: `Bearer ${token}` } });
    const answers = await Promise.all([1, 2, 3, 4].map(() => get(app.token)));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 200, 200, 429]);
    expect(answers[0]?.headers.get('ratelimit-policy')).toContain('q=3');
    expect(answers.find(({ status }) => status === 429)?.headers.get('retry-after')).toBe('60');
    expect((await get(reader.token)).status).toBe(200);
    await replica.stop();
  });
});

describe('a connect link', () => {
  it('connects a user, who comes back to the application as the athlete they are', async () => {
    const { athleteId, end } = await connectBy(await linkFor('user-1'));
    expect(end.href).toBe(`https://app.example.com/back?tab=1&status=connected&athleteId=${athleteId}`);
    const { body } = await reader.call('GET', '/api/v1/athletes?externalId=user-1');
    expect(body.athletes).toEqual([expect.objectContaining({ id: athleteId, externalId: 'user-1', state: 'healthy' })]);
    const { changes } = (await reader.call('GET', `/api/v1/changes?athleteId=${athleteId}`)).body;
    expect(changes[0]).toMatchObject({ type: 'athlete.connected', externalId: 'user-1' });
  });

  it('brings a user back who denied access', async () => {
    const { end } = await connectBy(await linkFor('user-2'), 'no');
    expect(end.href).toBe('https://app.example.com/back?tab=1&status=denied');
  });

  it('is kept by the page that says that the athlete was not connected: they come back to the application', async () => {
    const link = await linkFor('user-7');
    const { id } = rig.simulator.addAthlete({ name: 'Ada Runner' });
    const begun = await fetch(link, { redirect: 'manual' });
    const consent = new URL(begun.headers.get('location') ?? '');
    consent.search += `&auto=1&athlete=${id}`;
    const granted = await fetch(consent, { redirect: 'manual' });
    const back = new URL(granted.headers.get('location') ?? '');
    const comeBack = async (cookie: string) => {
      const headers = { cookie, accept: 'text/html' };
      const response = await fetch(`${rig.service.url}${back.pathname}${back.search}`, { headers });
      const again = /href="([^"]+)">reconnect/.exec(await response.text())?.[1];
      return { status: response.status, again };
    };
    rig.simulator.faults.add({ kind: 'status', status: 500, match: { path: /oauth\/token/ } });
    const failed = await comeBack(cookieOf(begun));
    rig.simulator.faults.clear();
    const { search } = new URL(link);
    expect(failed).toEqual({ status: 502, again: `/api/provider/connect${search}` });
    // The state was used; another browser learns no link from it.
    expect(await comeBack(cookieOf(begun))).toEqual({ status: 400, again: `/api/provider/connect${search}` });
    expect(await comeBack('')).toEqual({ status: 400, again: '/api/provider/connect' });
    const { end } = await connectBy(`${rig.service.url}${failed.again}`);
    expect([end.origin, end.searchParams.get('status')]).toEqual(['https://app.example.com', 'connected']);
  });

  it('is refused for an origin that is not the application’s, and with a changed signature', async () => {
    for (const returnUrl of [
      'https://evil.example.com/',
      'https://app.example.com.evil.com/',
      'https://app.example.com@evil.com/',
    ]) {
      const { status, body } = await app.call('POST', '/api/v1/connect-links', { externalId: 'user-3', returnUrl });
      expect([status, body.errors[0].field]).toEqual([400, 'body.returnUrl']);
    }
    const link = await linkFor('user-3');
    const changed = await fetch(`${link.slice(0, -2)}xx`, { redirect: 'manual' });
    expect(changed.status).toBe(400);
    const state = await fetch(link, { redirect: 'manual' });
    const asLink = new URL(state.headers.get('location') ?? '').searchParams.get('state');
    expect((await fetch(`${rig.service.url}/api/provider/connect?link=${asLink}`, { redirect: 'manual' })).status).toBe(
      400,
    );
  });
});

describe('the application’s copy', () => {
  it('is read in full: lists, one activity, the provider’s answer, the picture, each with an ETag', async () => {
    const { athleteId } = await connectBy(await linkFor('user-4'));
    const first = await rig.simulator.createActivityAndNotify(athleteId, { name: 'First' });
    await untilThumbnail(rig, first.id);
    const second = await rig.simulator.createActivityAndNotify(athleteId, { name: 'Second' });
    await untilThumbnail(rig, second.id);
    const list = async (query: string) => (await reader.call('GET', `/api/v1/activities?${query}`)).body;
    const names = ({ activities }: { activities: { name: string }[] }) => activities.map(({ name }) => name).sort();
    expect(names(await list('externalId=user-4'))).toEqual(['First', 'Second']);
    expect(names(await list(`athleteId=${athleteId}`))).toEqual(['First', 'Second']);
    expect(names(await list('externalId=user-1'))).toEqual([]);
    const page = await list('externalId=user-4&limit=1');
    const rest = await list(`externalId=user-4&limit=1&cursor=${encodeURIComponent(page.nextCursor)}`);
    expect([names({ activities: [...page.activities, ...rest.activities] }), rest.nextCursor]).toEqual([
      ['First', 'Second'],
      null,
    ]);
    const { updatedAt } = (await reader.call('GET', `/api/v1/activities/${second.id}`)).body;
    expect(names(await list(`externalId=user-4&updatedAfter=${updatedAt}`))).toEqual(['Second']);
    for (const path of ['', '/raw', '/thumbnail']) {
      const url = `/api/v1/activities/${first.id}${path}`;
      const answer = await reader.call('GET', url);
      const etag = answer.headers.get('etag') ?? '';
      const again = await reader.call('GET', url, undefined, { 'if-none-match': etag });
      expect([answer.status, etag.length > 2, again.status]).toEqual([200, true, 304]);
    }
    expect((await reader.call('GET', `/api/v1/activities/${first.id}/raw`)).body).toMatchObject({ name: 'First' });

    expect((await app.call('DELETE', `/api/v1/athletes/${athleteId}`)).status).toBe(200);
    for (const path of [`athletes/${athleteId}`, `activities/${first.id}`, `activities/${first.id}/raw`])
      expect((await reader.call('GET', `/api/v1/${path}`)).status).toBe(404);
  });

  it('is available in SQL too, for a role that may read it and nothing else', async () => {
    const { athleteId } = await connectBy(await linkFor('user-5'));
    const { id } = await rig.simulator.createActivityAndNotify(athleteId, { name: 'In SQL' });
    await untilThumbnail(rig, id);
    await rig.service.database.transaction(async (tx) => {
      await tx.query('SET LOCAL ROLE activity_sync_reader');
      expect(await tx.query('SELECT id, external_id, name FROM activity_sync.activities WHERE id = $1', [id])).toEqual([
        { id, external_id: 'user-5', name: 'In SQL' },
      ]);
      expect(await tx.query(`SELECT id, state FROM activity_sync.athletes WHERE external_id = 'user-5'`)).toEqual([
        { id: athleteId, state: 'healthy' },
      ]);
      expect(
        await tx.query('SELECT type FROM activity_sync.changes WHERE athlete_id = $1 ORDER BY cursor', [athleteId]),
      ).toEqual(['athlete.connected', 'activity.created', 'activity.thumbnail'].map((type) => ({ type })));
    });
    const tables = ['athlete', 'activity', 'endpoint', 'api_token', 'pgboss.job'];
    for (const table of tables)
      await expect(
        rig.service.database.transaction(async (tx) => {
          await tx.query('SET LOCAL ROLE activity_sync_reader');
          await tx.query(`SELECT FROM ${table}`);
        }),
      ).rejects.toThrow('permission denied');
  });

  it('is described: every answer matches the OpenAPI document', async () => {
    const description = await readDescription(rig);
    const { athletes } = (await app.call('GET', '/api/v1/athletes')).body;
    const requests: [method: string, path: string, body?: object][] = [
      ['GET', '/api/v1/athletes'],
      ['GET', `/api/v1/athletes/${athletes[0].id}`],
      ['GET', '/api/v1/activities'],
      ['GET', '/api/v1/changes?limit=1000'],
      ['GET', '/api/v1/changes?after=99999999'],
      ['POST', '/api/v1/connect-links', { externalId: 'x', returnUrl: 'https://app.example.com/' }],
      ['POST', '/api/v1/endpoints', { url: 'http://127.0.0.1/' }],
      ['GET', '/api/v1/endpoints'],
      ['GET', '/api/v1/endpoints/1'],
      ['GET', '/api/v1/endpoints/1/attempts'],
    ];
    for (const [method, path, body] of requests)
      expect(description.misfits(method, path, await app.call(method, path, body))).toEqual([]);
    const tokens = await ask(rig, 'GET', '/api/admin/api-tokens');
    expect(description.misfits('GET', '/api/admin/api-tokens', tokens)).toEqual([]);
  });
});

describe('an athlete who is hidden', () => {
  it('has no name and no activities, neither here nor in SQL', async () => {
    const { athleteId } = await connectBy(await linkFor('user-6'));
    const { id } = await rig.simulator.createActivityAndNotify(athleteId, { name: 'Withdrawn' });
    await rig.untilJob(id, ({ outcome }) => outcome === 'stored');
    await rig.service.database.query('UPDATE athlete SET hidden_since = now() WHERE athlete_id = $1', [athleteId]);
    const listed = (await reader.call('GET', '/api/v1/athletes?externalId=user-6')).body.athletes;
    expect(listed).toEqual([expect.objectContaining({ id: athleteId, name: null, activities: 0 })]);
    expect((await reader.call('GET', '/api/v1/activities?externalId=user-6')).body.activities).toEqual([]);
    await rig.service.database.transaction(async (tx) => {
      await tx.query('SET LOCAL ROLE activity_sync_reader');
      const inView = (view: string) => tx.query(`SELECT * FROM activity_sync.${view} WHERE external_id = 'user-6'`);
      expect(await inView('athletes')).toEqual([expect.objectContaining({ id: athleteId, name: null })]);
      expect(await inView('activities')).toEqual([]);
    });
  });
});

describe('text that cannot be stored', () => {
  it('is refused with its field, in the filters of lists and in a connect link', async () => {
    for (const list of ['athletes', 'activities']) {
      const { status, body } = await reader.call('GET', `/api/v1/${list}?externalId=a%00b`);
      expect([status, body.errors]).toEqual([400, [{ field: 'query.externalId', message: 'must not contain U+0000' }]]);
    }
    const link = { externalId: 'a\0b', returnUrl: 'https://app.example.com/' };
    const { status, body } = await app.call('POST', '/api/v1/connect-links', link);
    expect([status, body.errors]).toEqual([400, [{ field: 'body.externalId', message: 'must not contain U+0000' }]]);
  });
});

describe('the audit', () => {
  const newest = async () => (await ask(rig, 'GET', '/api/admin/audit?limit=1')).body.entries[0];

  it('tells which application changed what, by the name of its token, and never the token', async () => {
    await app.call('PATCH', '/api/v1/endpoints/123', { enabled: false });
    expect(await newest()).toMatchObject({
      who: 'application',
      action: 'PATCH /api/v1/endpoints/:id',
      target: '123',
      status: 404,
      detail: { token: 'test application' },
    });
    await app.call('GET', '/api/v1/endpoints');
    const { entries } = (await ask(rig, 'GET', '/api/admin/audit?limit=200')).body;
    expect(entries[0].action).toBe('PATCH /api/v1/endpoints/:id');
    expect(JSON.stringify(entries)).not.toContain(app.token);
  });

  it('keeps that an athlete was erased and which application asked, but not the athlete’s id', async () => {
    const [first, second] = [await rig.connectAthlete(), await rig.connectAthlete()];
    expect((await ask(rig, 'DELETE', `/api/v1/athletes/${first}`)).status).toBe(200);
    const erased = { action: 'DELETE /api/v1/athletes/:id', target: null, status: 200 };
    expect(await newest()).toMatchObject({ ...erased, who: 'admin', detail: {} });
    await app.call('DELETE', `/api/v1/athletes/${second}`);
    expect(await newest()).toMatchObject({ ...erased, who: 'application', detail: { token: 'test application' } });
    const rows = await rig.service.database.query('SELECT a::text AS text FROM audit_entry a');
    for (const id of [first, second]) expect(JSON.stringify(rows)).not.toContain(id);
  });
});

describe('the endpoints', () => {
  it('are 2000 at most: one more is answered 409 with what to do', async () => {
    const { database } = rig.service;
    await database.query(
      `INSERT INTO endpoint (url, secret, position, disabled_at, disabled_reason)
       SELECT 'https://example.com/' || n, '', 0, now(), 'request' FROM generate_series(1, 2000) n`,
    );
    const refused = await app.call('POST', '/api/v1/endpoints', { url: 'https://1.1.1.1/' });
    expect([refused.status, refused.body.detail]).toEqual([409, expect.stringContaining('Delete one')]);
    await database.query(`DELETE FROM endpoint WHERE url = 'https://example.com/1'`);
    const accepted = await app.call('POST', '/api/v1/endpoints', { url: 'https://1.1.1.1/' });
    expect(accepted.status).toBe(201);
    await database.query('DELETE FROM endpoint');
  });
});

describe('an endpoint of a forbidden kind', () => {
  it('is refused at once, by address and by name, and nothing is stored', async () => {
    for (const url of [
      'http://example.com/',
      'https://127.0.0.1/',
      'https://localhost/',
      'https://[::1]/',
      'https://10.0.0.1/',
      'nonsense',
    ]) {
      const { status, body } = await app.call('POST', '/api/v1/endpoints', { url });
      expect([status, body.errors[0].field]).toEqual([400, 'body.url']);
    }
    expect((await app.call('GET', '/api/v1/endpoints')).body.endpoints).toEqual([]);
  });
});
