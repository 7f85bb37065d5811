import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import type { Finding } from '../../src/flows/finding.ts';
import { type DoctorDependencies, examineSubscription } from '../../src/flows/subscription-doctor.ts';
import { readDeliveries } from '../../src/store/deliveries.ts';
import { forgetSubscription, saveSubscription } from '../../src/store/subscriptions.ts';
import { type Rig, startRig, VERIFY_TOKEN } from '../support/service.ts';

let rig: Rig;
let callbackUrl: string;
const DAY = 86_400_000;
const HOUR = 3_600_000;

beforeAll(async () => {
  rig = await startRig({ subscriptions: [] });
  callbackUrl = `${rig.service.url}/api/provider/webhook`;
});
afterAll(() => rig.close());
afterEach(async () => {
  rig.simulator.faults.clear();
  for (const { id } of await rig.service.provider.listSubscriptions())
    await rig.service.provider.deleteSubscription(id);
  await rig.service.database.query('DELETE FROM subscription');
  await rig.service.database.query('DELETE FROM webhook_event');
});

async function examine(changes: Partial<DoctorDependencies> = {}) {
  const { ok, findings } = await examineSubscription({
    provider: rig.service.provider,
    callbackUrl,
    providerOrigin: rig.simulator.url,
    verifyToken: VERIFY_TOKEN,
    signed: false,
    readDeliveries: () => readDeliveries(rig.service.database),
    now: Date.now,
    ...changes,
  });
  const by = new Map(findings.map((finding) => [finding.check, finding]));
  return { ok, findings, of: (check: string) => by.get(check) as Finding };
}

const subscribe = () => rig.service.provider.createSubscription({ callbackUrl, verifyToken: VERIFY_TOKEN });

async function trust(): Promise<void> {
  const body = JSON.stringify({ callbackUrl });
  expect((await rig.admin('/api/admin/webhooks', { method: 'POST', body })).status).toBe(201);
}

describe('the subscription doctor', () => {
  it('finds nothing wrong once the subscription is made through the service', async () => {
    await trust();
    const { ok, findings } = await examine();
    expect(findings.filter((finding) => !finding.ok)).toEqual([]);
    expect(ok).toBe(true);
    expect(findings.every(({ nextStep }) => nextStep === null)).toBe(true);
  });

  it('answers over HTTP, and never with the verify token', async () => {
    const answer = await rig.admin('/api/admin/webhooks/doctor');
    const text = await answer.text();
    expect(answer.status).toBe(200);
    expect(JSON.parse(text)).toMatchObject({ ok: false, findings: expect.any(Array) });
    expect(text).not.toContain(VERIFY_TOKEN);
  });

  it('reports that there is no subscription, and how to create one', async () => {
    const { ok, of } = await examine();
    expect(ok).toBe(false);
    expect(of('subscription')).toMatchObject({ ok: false, nextStep: expect.stringContaining('webhook:create') });
  });

  it('reports that there are two', async () => {
    rig.simulator.subscribe(callbackUrl);
    rig.simulator.subscribe('https://elsewhere.example/hook');
    expect((await examine()).of('subscription')).toMatchObject({
      ok: false,
      detail: expect.stringContaining('2 subscriptions'),
    });
  });

  it('reports that the subscription points elsewhere', async () => {
    rig.simulator.subscribe('https://old.example/api/provider/webhook');
    expect((await examine()).of('callback')).toMatchObject({
      ok: false,
      detail: expect.stringContaining('https://old.example/api/provider/webhook'),
    });
  });

  it('reports that the provider refuses the credentials', async () => {
    rig.simulator.faults.add({ kind: 'status', status: 401, match: { path: /push_subscriptions/ } });
    expect((await examine()).of('subscription').nextStep).toContain('PROVIDER_CLIENT_SECRET');
    rig.simulator.faults.clear();
  });

  it('reports that the subscription’s events are refused, since another one is known', async () => {
    await subscribe();
    expect((await examine()).of('trusted subscriptions')).toMatchObject({ ok: false });
    await rig.service.database.query(`INSERT INTO subscription (subscription_id, callback_url) VALUES (99, '')`);
    const { detail, nextStep } = (await examine()).of('trusted subscriptions');
    expect(detail).toContain('only 99 is known');
    expect(nextStep).toContain('webhook:list');
  });

  it('reports that the callback has another verify token, without naming either', async () => {
    const { of } = await examine({ verifyToken: 'some-other-token' });
    expect(of('handshake')).toMatchObject({ ok: false, detail: expect.stringContaining('403') });
    expect(JSON.stringify(of('handshake'))).not.toContain('some-other-token');
    expect((await examine({ verifyToken: undefined })).of('verify token')).toMatchObject({ ok: false });
  });

  it.each([
    [
      'another server’s page',
      (server: Server) => server.on('request', (_, response) => response.end('<html>')),
      'answers 200, not 200 with the challenge',
    ],
    [
      'a redirect',
      (server: Server) => server.on('request', (_, response) => response.writeHead(302, { Location: '/' }).end()),
      'answers 302',
    ],
    [
      'a connection that is cut',
      (server: Server) => server.on('request', (request) => request.socket.destroy()),
      'does not answer',
    ],
    ['silence', (server: Server) => server.on('request', () => undefined), 'nothing within 2000 ms'],
  ])('reports that the public address leads to %s', async (_, behave, expected) => {
    const server = behave(createServer()).listen(0, '127.0.0.1');
    await new Promise((resolve) => server.once('listening', resolve));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/api/provider/webhook`;
    const { of } = await examine({ callbackUrl: url });
    expect(of('handshake')).toMatchObject({ ok: false, detail: expect.stringContaining(expected) });
    expect(JSON.stringify(of('handshake'))).not.toContain(VERIFY_TOKEN);
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });

  it('reports an address that the provider cannot reach, or not safely', async () => {
    const providerOrigin = 'https://www.provider.example';
    expect((await examine({ providerOrigin })).of('public address').detail).toContain('this machine or network only');
    const plain = await examine({ providerOrigin, callbackUrl: 'http://sync.invalid/api/provider/webhook' });
    expect(plain.of('public address')).toMatchObject({ ok: false, nextStep: expect.stringContaining('https') });
  });

  it('says when the last event arrived, and finds days of silence suspicious', async () => {
    const athleteId = await rig.connectAthlete();
    expect((await examine()).of('last event')).toMatchObject({
      ok: false,
      detail: expect.stringContaining('None has arrived'),
    });
    await subscribe();
    const known = { id: String(rig.simulator.subscriptions.at(-1)?.id), callbackUrl };
    await saveSubscription(rig.service.database, known);
    await rig.simulator.createActivityAndNotify(athleteId);
    await forgetSubscription(rig.service.database, known.id);
    expect((await examine()).of('last event')).toMatchObject({
      ok: true,
      detail: expect.stringContaining('arrived less than a minute ago, at '),
    });
    const later = await examine({ now: () => Date.now() + 4 * DAY });
    expect(later.of('last event')).toMatchObject({ ok: false, detail: expect.stringContaining('4 days ago') });
  });

  it('only warns while no event has come within the first hour of a subscription', async () => {
    await rig.connectAthlete();
    await trust();
    const { ok, of } = await examine();
    expect(of('last event')).toMatchObject({ ok: true, nextStep: expect.stringContaining('title') });
    expect(of('last event').detail).toContain('less than an hour old');
    expect(ok).toBe(true);
    const later = await examine({ now: () => Date.now() + 2 * HOUR });
    expect(later.of('last event')).toMatchObject({ ok: false });
  });

  it('says whether deliveries must be signed', async () => {
    expect((await examine({ signed: true })).of('signature').detail).toContain('must carry a valid signature');
  });

  it('works without the database when it is unreachable', async () => {
    expect((await examine({ readDeliveries: undefined })).of('deliveries')).toMatchObject({ ok: false });
  });
});

describe('a call about subscriptions that the provider throttles', () => {
  it.each([
    ['listed', 'GET', '/api/admin/webhooks', 502],
    ['created', 'POST', '/api/admin/webhooks', 502],
    ['deleted', 'DELETE', '/api/admin/webhooks?id=1', 502],
    ['examined', 'GET', '/api/admin/webhooks/doctor', 200],
  ])('stops every replica for as long as the provider requests: they are %s', async (_what, method, path, status) => {
    const { database, budget } = rig.service;
    await database.query(`UPDATE rate_budget SET blocked_until = '-infinity', reduced_capacity = NULL`);
    const match = { path: /push_subscriptions/, method };
    rig.simulator.faults.add({ kind: 'retryAfter429', retryAfter: 600, match, times: 1 });
    const answer = await rig.admin(path, { method, ...(method === 'POST' ? { body: '{}' } : {}) });
    await answer.arrayBuffer();
    expect(answer.status).toBe(status);
    const { blockedUntil } = await budget.read();
    expect(blockedUntil?.getTime()).toBeGreaterThan(Date.now() + 590_000);
  });
});
