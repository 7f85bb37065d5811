import { afterAll, beforeAll, describe, expect, it, jest } from '@jest/globals';
import { keepLog } from '../support/kept-log.ts';
import { problemOf } from '../support/problem.ts';
import { ADMIN_TOKEN, READ_TOKEN, type Rig, startRig } from '../support/service.ts';
import { signIn } from '../support/sign-in.ts';

const { logger, lines } = keepLog();
let rig: Rig;
beforeAll(async () => {
  rig = await startRig({ logger });
});
afterAll(() => rig.close());

describe('the limit on sign-in', () => {
  const tries = async (url: string, addressOf: (n: number) => string, count: number) => {
    const statuses = new Set<number>();
    for (let n = 0; n < count; n += 1) {
      const answer = await signIn(url, 'wrong-token', { 'x-forwarded-for': addressOf(n) });
      await answer.arrayBuffer();
      statuses.add(answer.status);
    }
    return [...statuses];
  };

  it('ignores an X-Forwarded-For header from a client, without a complaint', async () => {
    const complaint = jest.spyOn(console, 'error').mockImplementation(() => undefined);
    const replica = await rig.startReplica();
    expect(await tries(replica.url, (n) => `198.51.100.${n}`, 11)).toEqual([401, 429]);
    expect(complaint).not.toHaveBeenCalled();
    complaint.mockRestore();
  });

  it('counts each address behind a trusted proxy separately', async () => {
    const replica = await rig.startReplica({ TRUSTED_PROXIES: '1' });
    expect(await tries(replica.url, (n) => `198.51.100.${n}`, 11)).toEqual([401]);
    // The client can forge whatever is left of the address that the proxy added.
    expect(await tries(replica.url, (n) => `203.0.113.${n}, 198.51.100.200`, 11)).toEqual([401, 429]);
  });
});

describe('the two ways to sign in, the plain form and the console’s', () => {
  const signInByConsole = (url: string, token: string) =>
    fetch(`${url}/api/admin/session`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ token }),
    });

  it('count wrong tokens from one address together', async () => {
    const { url } = await rig.startReplica();
    const statuses: number[] = [];
    for (let n = 0; n < 6; n += 1)
      for (const way of [signIn, signInByConsole]) {
        const answer = await way(url, 'wrong-token');
        await answer.arrayBuffer();
        statuses.push(answer.status);
      }
    expect(statuses).toEqual([...Array(10).fill(401), 429, 429]);
  });

  it('say how large a body they take', async () => {
    const tooLarge = async (path: string, type: string, body: string) => {
      const headers = { 'content-type': type, 'sec-fetch-site': 'same-origin' };
      const answer = await fetch(`${rig.service.url}${path}`, { method: 'POST', headers, body });
      return (await problemOf(answer, 413)).detail;
    };
    expect(await tooLarge('/sign-in', 'application/x-www-form-urlencoded', `token=${'x'.repeat(4096)}`)).toBe(
      'The body is larger than 4 KiB.',
    );
    expect(await tooLarge('/api/admin/session', 'application/json', `{"token": "${'x'.repeat(65_536)}"}`)).toBe(
      'The body is larger than 64 KiB.',
    );
  });

  it('are both written to the audit', async () => {
    const { url } = rig.service;
    for (const way of [signIn, signInByConsole]) await (await way(url, ADMIN_TOKEN)).arrayBuffer();
    await (await signIn(url, READ_TOKEN)).arrayBuffer();
    const audit = await (await rig.admin('/api/admin/audit?limit=3')).json();
    expect(audit).toMatchObject({
      entries: [
        { who: 'read', action: 'POST /sign-in', status: 200 },
        { who: 'admin', action: 'POST /api/admin/session', status: 200 },
        { who: 'admin', action: 'POST /sign-in', status: 200 },
      ],
    });
  });

  it('start no session that the audit cannot record', async () => {
    const { database } = rig.service;
    await database.query('ALTER TABLE audit_entry RENAME TO audit_entry_away');
    const answers = [];
    for (const way of [signIn, signInByConsole]) {
      const answer = await way(rig.service.url, ADMIN_TOKEN);
      await answer.arrayBuffer();
      answers.push([answer.status, answer.headers.get('set-cookie')]);
    }
    await database.query('ALTER TABLE audit_entry_away RENAME TO audit_entry');
    expect(answers).toEqual([
      [500, null],
      [500, null],
    ]);
  });

  it('show no token in any line of the log, however they end', () => {
    expect(lines.length).toBeGreaterThan(0);
    for (const token of [ADMIN_TOKEN, READ_TOKEN, 'wrong-token']) expect(lines.join()).not.toContain(token);
  });
});
