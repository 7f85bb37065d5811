import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { ask } from '../support/admin.ts';
import { problemOf } from '../support/problem.ts';
import { type Rig, startRig } from '../support/service.ts';

let rig: Rig;
beforeAll(async () => {
  rig = await startRig({ env: { SERVICE_ROLES: 'web', TRUSTED_PROXIES: '1' } });
});
afterAll(() => rig.close());

const exchanges = () => rig.simulator.calls.filter(({ path }) => path === '/oauth/token').length;

/** The provider's answer to an athlete who said yes: state, code and scope. */
async function consent(athleteId: string): Promise<URLSearchParams> {
  const begun = await fetch(`${rig.service.url}/api/provider/connect`, { redirect: 'manual' });
  const address = new URL(begun.headers.get('location') ?? '');
  address.searchParams.set('auto', '1');
  address.searchParams.set('athlete', athleteId);
  const granted = await fetch(address, { redirect: 'manual' });
  return new URL(granted.headers.get('location') ?? '').searchParams;
}

const comeBack = (query: URLSearchParams, from: string) =>
  fetch(`${rig.service.url}/api/provider/callback?${query}`, { headers: { 'x-forwarded-for': from } });

describe('an athlete who comes back from the provider', () => {
  it('is connected whatever the scope holds, in a form that PostgreSQL holds', async () => {
    const { id } = rig.simulator.addAthlete({ name: 'Ada Runner' });
    const answer = await consent(id);
    answer.set('scope', 'read,activity:read\0');
    const connected = await comeBack(answer, '198.51.100.1');
    await connected.arrayBuffer();
    expect(connected.status).toBe(200);
    expect((await ask(rig, 'GET', `/api/admin/athletes/${id}`)).body.scope).toBe('read,activity:read\ufffd');
  });

  it('keeps the code when the scope is too long: it is refused before the code is exchanged', async () => {
    const { id } = rig.simulator.addAthlete({ name: 'Bo Rider' });
    const answer = await consent(id);
    const before = exchanges();
    const long = new URLSearchParams(answer);
    long.set('scope', 'x'.repeat(501));
    const refused = await comeBack(long, '198.51.100.2');
    expect([refused.status, await problemOf(refused)]).toEqual([
      400,
      expect.objectContaining({ errors: [{ field: 'query.scope', message: 'must have at most 500 characters' }] }),
    ]);
    expect(exchanges()).toBe(before);
    const connected = await comeBack(answer, '198.51.100.2');
    await connected.arrayBuffer();
    expect(connected.status).toBe(200);
  });

  it('is refused after ten tries that connected nobody from one address, without a call to the provider', async () => {
    const { id } = rig.simulator.addAthlete({ name: 'Cleo Walker' });
    const answer = await consent(id);
    const invented = new URLSearchParams(answer);
    invented.set('code', 'invented');
    const before = exchanges();
    const statuses: number[] = [];
    for (let n = 0; n < 12; n += 1) {
      const refused = await comeBack(invented, '198.51.100.3');
      statuses.push(refused.status);
      await problemOf(refused);
    }
    expect(statuses).toEqual([...Array(10).fill(502), 429, 429]);
    expect(exchanges()).toBe(before + 10);
    const elsewhere = await comeBack(answer, '198.51.100.4');
    await elsewhere.arrayBuffer();
    expect(elsewhere.status).toBe(200);
  });

  it('reads in the browser why it was not connected, and what to do, where a client gets a problem', async () => {
    const { id } = rig.simulator.addAthlete({ name: 'Dara Swimmer' });
    const answer = await consent(id);
    const browse = (query: URLSearchParams) =>
      fetch(`${rig.service.url}/api/provider/callback?${query}`, {
        headers: { accept: 'text/html,application/xhtml+xml,*/*;q=0.8', 'x-forwarded-for': '198.51.100.6' },
      });
    const connected = await browse(answer);
    expect([connected.status, await connected.text()]).toEqual([
      200,
      expect.stringMatching(/<h1>Connected<\/h1>[\s\S]*this application has your activities/),
    ]);
    const tries: [query: URLSearchParams, status: number, words: string][] = [
      [answer, 502, 'If you were told before that you are connected, you still are.'],
      [new URLSearchParams({ state: 'old', code: '<b>' }), 400, 'This address holds for an hour'],
    ];
    for (const [query, status, words] of tries) {
      const page = await browse(query);
      expect([page.status, page.headers.get('content-type')]).toEqual([status, 'text/html; charset=utf-8']);
      const text = await page.text();
      expect(text).toContain(words);
      expect(text).toContain('<a href="/api/provider/connect">connect again</a>');
    }
    const client = await comeBack(answer, '198.51.100.6');
    expect([client.status, (await problemOf(client)).title]).toEqual([502, 'The provider refused']);
  });

  it('is not counted when it connects: a room of athletes may share an address', async () => {
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
