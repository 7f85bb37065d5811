import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { TestClock } from 'pg-boss';
import { keepLog } from '../support/kept-log.ts';
import { problemOf } from '../support/problem.ts';
import { ADMIN_TOKEN, READ_TOKEN, type Rig, startRig } from '../support/service.ts';
import { signIn } from '../support/sign-in.ts';
import { until } from '../support/until.ts';

const { logger, lines } = keepLog();
const clock = new TestClock();
let rig: Rig;
beforeAll(async () => {
  rig = await startRig({ logger, clock, env: { SERVICE_ROLES: 'web', TRUSTED_PROXIES: '1' } });
});
afterAll(() => rig.close());

const ask = async (token: string, from: string, path = '/api/admin/session') => {
  const headers = { authorization: `Bearer ${token}`, 'x-forwarded-for': from };
  const answer = await fetch(`${rig.service.url}${path}`, { headers, redirect: 'manual' });
  await answer.arrayBuffer();
  return answer.status;
};
const failures = () =>
  lines.map((line) => JSON.parse(line)).filter(({ message }) => message === 'authentication failed');

describe('wrong bearer tokens', () => {
  it('are answered 429 after ten a minute from one address, on every path that takes one', async () => {
    const statuses: number[] = [];
    for (let n = 0; n < 12; n += 1)
      statuses.push(await ask(`wrong-${n}`, '198.51.100.1', n % 2 ? '/api/admin/session' : '/'));
    expect(statuses).toEqual([302, 401, 302, 401, 302, 401, 302, 401, 302, 401, 429, 429]);
  });

  it('count together with wrong sign-ins, and a 429 says when to retry', async () => {
    for (let n = 0; n < 5; n += 1) await ask('wrong', '198.51.100.2');
    for (let n = 0; n < 5; n += 1)
      await (await signIn(rig.service.url, 'wrong', { 'x-forwarded-for': '198.51.100.2' })).arrayBuffer();
    const refused = await signIn(rig.service.url, 'wrong', { 'x-forwarded-for': '198.51.100.2' });
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '60']);
    await problemOf(refused);
  });

  it('lock out no right token, from another address or the same', async () => {
    for (let n = 0; n < 20; n += 1) await ask('wrong', '198.51.100.3');
    expect(await ask('wrong', '198.51.100.3')).toBe(429);
    expect(await ask(ADMIN_TOKEN, '198.51.100.3')).toBe(200);
    expect(await ask(READ_TOKEN, '198.51.100.4')).toBe(200);
    const begun = await signIn(rig.service.url, ADMIN_TOKEN, { 'x-forwarded-for': '198.51.100.3' });
    await begun.arrayBuffer();
    expect(begun.status).toBe(303);
  });

  it('of a minute are one log line, which the rule finds, and one audit entry', async () => {
    await clock.tick(60_000);
    await until(() => failures().length > 0, 'the line');
    lines.splice(0);
    for (let n = 0; n < 15; n += 1) await ask('wrong', '198.51.100.5');
    await ask('wrong', '198.51.100.6');
    await clock.tick(60_000);
    await until(() => failures().length > 0, 'the line');
    expect(failures()).toEqual([
      expect.objectContaining({ level: 'warn', component: 'auth', address: '198.51.100.5', count: 16, addresses: 2 }),
    ]);
    const rule = /\|~ `(.*uthentication failed)`/.exec(readFileSync('alerting/rules/logs.yaml', 'utf8'))?.[1] ?? '';
    expect(lines.filter((line) => new RegExp(rule).test(line))).toHaveLength(1);
    const newest = async () => (await (await rig.admin('/api/admin/audit?limit=1')).json()) as { entries: object[] };
    await until(async () => JSON.stringify(await newest()).includes('198.51.100.5'), 'the entry');
    expect((await newest()).entries).toEqual([
      expect.objectContaining({
        who: 'nobody',
        action: 'authentication failed',
        status: 401,
        detail: { address: '198.51.100.5', count: 16, countOfAddress: 15, addresses: 2 },
      }),
    ]);
  });

  it('may come again in the next minute', async () => {
    for (let n = 0; n < 11; n += 1) await ask('wrong', '198.51.100.7');
    expect(await ask('wrong', '198.51.100.7')).toBe(429);
    await clock.tick(60_000);
    expect(await ask('wrong', '198.51.100.7')).toBe(401);
  });

  it('from one IPv6 network count together, since one holder has all of it', async () => {
    const statuses: number[] = [];
    for (let n = 0; n < 11; n += 1) statuses.push(await ask('wrong', `2001:db8:0:1::${n + 1}`));
    expect(statuses).toEqual([...Array(10).fill(401), 429]);
  });

  it('show no token in any line of the log', () => {
    expect(lines.join()).not.toMatch(/wrong/);
  });
});
