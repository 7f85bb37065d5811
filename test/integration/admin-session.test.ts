import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { send } from '../support/admin.ts';
import { problemOf } from '../support/problem.ts';
import { ADMIN_TOKEN, READ_TOKEN, type Rig, startRig } from '../support/service.ts';

let rig: Rig;
beforeAll(async () => {
  rig = await startRig({ env: { SERVICE_ROLES: 'web' } });
});
afterAll(() => rig.close());

describe('a browser session', () => {
  const signIn = (token: string, headers: Record<string, string> = {}) =>
    send(
      rig,
      'POST',
      '/api/admin/session',
      { 'content-type': 'application/json', ...headers },
      JSON.stringify({ token }),
    );
  const cookieOf = (response: Response) => response.headers.get('set-cookie')?.split(';')[0] as string;

  it('begins with a token, is kept from scripts and other sites, and ends', async () => {
    const begun = await signIn(ADMIN_TOKEN, { origin: rig.service.url });
    expect([begun.status, await begun.json()]).toEqual([200, { access: 'admin' }]);
    expect(begun.headers.get('set-cookie')).toMatch(/HttpOnly.*SameSite=Strict/);
    expect(begun.headers.get('set-cookie')).not.toContain(ADMIN_TOKEN);
    const cookie = cookieOf(begun);
    const session = await send(rig, 'GET', '/api/admin/session', { cookie });
    expect(await session.json()).toEqual({ access: 'admin' });
    const ended = await send(rig, 'DELETE', '/api/admin/session', { cookie, origin: rig.service.url });
    expect([ended.status, cookieOf(ended)]).toEqual([204, 'activity_sync_session=']);
  });

  const accessOf = async (cookie: string, service = rig.service) => {
    const answer = await fetch(`${service.url}/api/admin/session`, { headers: { cookie } });
    await answer.arrayBuffer();
    return answer.status;
  };

  it('ends with the sign-out: a copy of its cookie is invalid on every replica', async () => {
    const replica = await rig.startReplica();
    const [first, second] = [cookieOf(await signIn(ADMIN_TOKEN)), cookieOf(await signIn(ADMIN_TOKEN))];
    expect([await accessOf(first), await accessOf(first, replica)]).toEqual([200, 200]);
    await (await send(rig, 'DELETE', '/api/admin/session', { cookie: first, origin: rig.service.url })).arrayBuffer();
    expect([await accessOf(first), await accessOf(first, replica), await accessOf(second)]).toEqual([401, 401, 200]);
  });

  it('ends with the token that began it, and with no other', async () => {
    const [admin, read] = [cookieOf(await signIn(ADMIN_TOKEN)), cookieOf(await signIn(READ_TOKEN))];
    const changed = await rig.startReplica({ ADMIN_TOKEN: 'another-admin-token-of-the-tests' });
    expect([await accessOf(admin, changed), await accessOf(read, changed)]).toEqual([401, 200]);
  });

  it('is kept as a hash: the database holds no cookie', async () => {
    const cookie = cookieOf(await signIn(ADMIN_TOKEN));
    const [, id = ''] = cookie.split('=');
    const rows = await rig.service.database.query(`SELECT encode(id_hash, 'base64') AS hash FROM browser_session`, []);
    expect(rows.length).toBeGreaterThan(0);
    expect(JSON.stringify(rows)).not.toContain(Buffer.from(id, 'base64url').toString('base64'));
  });

  it('can change things only from our own pages', async () => {
    const cookie = cookieOf(await signIn(ADMIN_TOKEN));
    const create = async (headers: Record<string, string>) => {
      const body = JSON.stringify({ activityId: '9001', athleteId: '9' });
      const response = await send(
        rig,
        'POST',
        '/api/admin/activity-jobs',
        { cookie, 'content-type': 'application/json', ...headers },
        body,
      );
      await response.arrayBuffer();
      return response.status;
    };
    expect(await create({})).toBe(403);
    expect(await create({ origin: 'https://evil.example' })).toBe(403);
    expect(await create({ 'sec-fetch-site': 'cross-site', origin: rig.service.url })).toBe(403);
    // The credentials that a browser keeps for a proxy in front are no token of ours.
    expect(await create({ authorization: 'Basic cHJveHk6cHJveHk=', origin: 'https://evil.example' })).toBe(403);
    expect(await create({ 'sec-fetch-site': 'same-origin' })).toBe(201);
    expect(await create({ origin: rig.service.url })).toBe(200);
    for (const method of ['POST', 'DELETE']) {
      const foreign = await send(
        rig,
        method,
        '/api/admin/session',
        { cookie, origin: 'https://evil.example', 'content-type': 'application/json' },
        method === 'POST' ? JSON.stringify({ token: ADMIN_TOKEN }) : undefined,
      );
      expect([method, foreign.status]).toEqual([method, 403]);
      await foreign.arrayBuffer();
    }
  });

  it('of the read token is read-only', async () => {
    const cookie = cookieOf(await signIn(READ_TOKEN));
    expect(await (await send(rig, 'GET', '/api/admin/session', { cookie })).json()).toEqual({ access: 'read' });
    const change = await send(rig, 'DELETE', '/api/admin/activity-jobs?status=done', {
      cookie,
      origin: rig.service.url,
    });
    expect(change.status).toBe(403);
    await change.arrayBuffer();
  });

  it('is not started by a body of unknown fields, of which the answer names twenty, with short names', async () => {
    const fields = [...Array.from({ length: 5000 }, (_unused, n) => `k${n}`), 'x'.repeat(500)].reverse();
    const body = JSON.stringify({ token: 'x', ...Object.fromEntries(fields.map((field) => [field, 1])) });
    const answer = await send(rig, 'POST', '/api/admin/session', { 'content-type': 'application/json' }, body);
    expect(answer.status).toBe(400);
    const text = await answer.text();
    expect(text.length).toBeLessThan(4000);
    const { errors } = JSON.parse(text) as { errors: { field: string; message: string }[] };
    expect(errors).toHaveLength(20);
    expect(errors.slice(0, 2)).toEqual([
      { field: `body.${'x'.repeat(195)}…`, message: 'is unknown' },
      { field: 'body.k4999', message: 'is unknown' },
    ]);
  });

  it('that cannot be started is answered with how to sign in, in the console and the plain form', async () => {
    const own = { 'sec-fetch-site': 'same-origin', 'content-type': 'application/x-www-form-urlencoded' };
    for (const refused of [await signIn('wrong'), await send(rig, 'POST', '/sign-in', own, 'token=wrong')]) {
      await refused.arrayBuffer();
      expect([refused.status, refused.headers.get('www-authenticate')]).toEqual([401, 'Bearer realm="activity-sync"']);
    }
  });

  it('is refused after ten wrong tokens from one address', async () => {
    const replica = await rig.startReplica();
    const statuses: number[] = [];
    for (let attempt = 0; attempt < 12; attempt += 1) {
      const response = await fetch(`${replica.url}/api/admin/session`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ token: `wrong-${attempt}` }),
      });
      statuses.push(response.status);
      await problemOf(response);
    }
    expect(statuses).toEqual([...Array(10).fill(401), 429, 429]);
  });
});
