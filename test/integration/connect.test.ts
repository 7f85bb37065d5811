import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { ask } from '../support/admin.ts';
import { problemOf } from '../support/problem.ts';
import { cookieOf, type Rig, startRig } from '../support/service.ts';

let rig: Rig;
beforeAll(async () => {
  rig = await startRig({ env: { SERVICE_ROLES: 'web', TRUSTED_PROXIES: '1' } });
});
afterAll(() => rig.close());

const exchanges = () => rig.simulator.calls.filter(({ path }) => path === '/oauth/token').length;

/** The provider's answer to an athlete who said yes (state, code and scope), and the cookie of their browser. */
interface Consent {
  query: URLSearchParams;
  cookie: string;
}

async function consent(athleteId: string, cookie = ''): Promise<Consent> {
  const begun = await fetch(`${rig.service.url}/api/provider/connect`, { redirect: 'manual', headers: { cookie } });
  const address = new URL(begun.headers.get('location') ?? '');
  address.searchParams.set('auto', '1');
  address.searchParams.set('athlete', athleteId);
  const granted = await fetch(address, { redirect: 'manual' });
  return { query: new URL(granted.headers.get('location') ?? '').searchParams, cookie: cookieOf(begun) };
}

const comeBack = ({ query, cookie }: Consent, from: string, accept = '*/*') =>
  fetch(`${rig.service.url}/api/provider/callback?${query}`, {
    headers: { accept, cookie, 'x-forwarded-for': from },
  });

/** The same answer with something changed. */
const changed = ({ query, cookie }: Consent, name: string, value: string): Consent => {
  const other = new URLSearchParams(query);
  other.set(name, value);
  return { query: other, cookie };
};

describe('the OAuth state that an athlete brings back', () => {
  it('is refused in every browser but the one that opened the link: no stranger is connected by a link', async () => {
    const { id } = rig.simulator.addAthlete({ name: 'Eve Sender' });
    const answer = await consent(id);
    const other = await consent(id);
    const before = exchanges();
    const statuses: number[] = [];
    for (const cookie of ['', other.cookie, 'activity_sync_connect=x', `${other.cookie}; x=y`]) {
      const refused = await comeBack({ ...answer, cookie }, '198.51.100.7');
      statuses.push(refused.status);
      await problemOf(refused);
    }
    expect(statuses).toEqual([400, 400, 400, 400]);
    expect(exchanges()).toBe(before);
  });

  it('is accepted once, also by two requests at a time and by another replica', async () => {
    const { id } = rig.simulator.addAthlete({ name: 'Finn Twice' });
    const answer = await consent(id);
    const statuses = await Promise.all(
      [1, 2, 3, 4].map(async () => {
        const back = await comeBack(answer, '198.51.100.8');
        await back.arrayBuffer();
        return back.status;
      }),
    );
    expect(statuses.sort()).toEqual([200, 400, 400, 400]);
  });

  it('is kept for ten minutes in a cookie that scripts cannot read and that the provider’s page returns', async () => {
    const secure = await rig.startReplica({ NEXT_PUBLIC_BASE_URL: 'https://sync.example.com' });
    const begun = await fetch(`${secure.url}/api/provider/connect`, { redirect: 'manual' });
    expect(begun.headers.get('set-cookie')).toMatch(
      /^__Host-activity_sync_connect=[\w-]{32}; Max-Age=600; Path=\/; Expires=[^;]*; HttpOnly; Secure; SameSite=Lax$/,
    );
  });

  it('is shared by two tabs of a browser: either callback works', async () => {
    const { id } = rig.simulator.addAthlete({ name: 'Gil Tabs' });
    const first = await consent(id);
    const second = await consent(id, first.cookie);
    for (const answer of [first, second]) {
      const connected = await comeBack({ ...answer, cookie: second.cookie }, '198.51.100.9');
      await connected.arrayBuffer();
      expect(connected.status).toBe(200);
    }
  });
});

describe('an athlete who comes back from the provider', () => {
  it('is connected whatever the scope holds, in a form that PostgreSQL holds', async () => {
    const { id } = rig.simulator.addAthlete({ name: 'Ada Runner' });
    const answer = await consent(id);
    const connected = await comeBack(changed(answer, 'scope', 'read,activity:read\0'), '198.51.100.1');
    await connected.arrayBuffer();
    expect(connected.status).toBe(200);
    expect((await ask(rig, 'GET', `/api/admin/athletes/${id}`)).body.scope).toBe('read,activity:read\ufffd');
  });

  it('keeps the code when the scope is too long: it is refused before the code is exchanged', async () => {
    const { id } = rig.simulator.addAthlete({ name: 'Bo Rider' });
    const answer = await consent(id);
    const before = exchanges();
    const refused = await comeBack(changed(answer, 'scope', 'x'.repeat(501)), '198.51.100.2');
    expect([refused.status, await problemOf(refused)]).toEqual([
      400,
      expect.objectContaining({ errors: [{ field: 'query.scope', message: 'must have at most 500 characters' }] }),
    ]);
    expect(exchanges()).toBe(before);
    const connected = await comeBack(answer, '198.51.100.2');
    await connected.arrayBuffer();
    expect(connected.status).toBe(200);
  });

  it('is refused after ten failed attempts from one address, without a call to the provider', async () => {
    const { id } = rig.simulator.addAthlete({ name: 'Cleo Walker' });
    const answer = await consent(id);
    const before = exchanges();
    const statuses: number[] = [];
    for (let n = 0; n < 12; n += 1) {
      const refused = await comeBack(changed(await consent(id), 'code', 'invented'), '198.51.100.3');
      statuses.push(refused.status);
      await problemOf(refused);
    }
    expect(statuses).toEqual([...Array(10).fill(502), 429, 429]);
    expect(exchanges()).toBe(before + 10);
    const elsewhere = await comeBack(answer, '198.51.100.4');
    await elsewhere.arrayBuffer();
    expect(elsewhere.status).toBe(200);
  });

  it('sees in the browser why the connection failed and what to do, where a client gets a problem document', async () => {
    const { id } = rig.simulator.addAthlete({ name: 'Dara Swimmer' });
    const answer = await consent(id);
    const browse = (query: Consent) => comeBack(query, '198.51.100.6', 'text/html,application/xhtml+xml,*/*;q=0.8');
    const connected = await browse(answer);
    expect([connected.status, await connected.text()]).toEqual([
      200,
      expect.stringMatching(/<h1>Connected<\/h1>[\s\S]*this application receives your activities/),
    ]);
    const refused = changed(await consent(id), 'code', '<b>');
    const tries: [query: Consent, status: number, words: string][] = [
      [refused, 502, 'If this page said earlier that you are connected, you still are.'],
      [answer, 400, 'This address works once, for ten minutes'],
    ];
    for (const [query, status, words] of tries) {
      const page = await browse(query);
      expect([page.status, page.headers.get('content-type')]).toEqual([status, 'text/html; charset=utf-8']);
      const text = await page.text();
      expect(text).toContain(words);
      expect(text).toContain('<a href="/api/provider/connect">reconnect</a>');
    }
    const client = await comeBack(changed(await consent(id), 'code', 'invented'), '198.51.100.6');
    expect([client.status, (await problemOf(client)).title]).toEqual([502, 'The provider refused']);
  });

  it('is not counted after a success: a room of athletes may share an address', async () => {
    const statuses: number[] = [];
    for (let n = 0; n < 12; n += 1) {
      const { id } = rig.simulator.addAthlete({ name: `Athlete ${n}` });
      const connected = await comeBack(await consent(id), '198.51.100.5');
      await connected.arrayBuffer();
      statuses.push(connected.status);
    }
    expect(statuses).toEqual(Array(12).fill(200));
  });
});
