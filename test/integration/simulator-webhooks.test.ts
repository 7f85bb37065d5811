import { createHmac } from 'node:crypto';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts';

interface Received {
  method: string;
  query: URLSearchParams;
  body: string;
  signature: string | undefined;
}

describe('the simulated provider: subscriptions and webhooks', () => {
  let simulator: Simulator;
  let callback: Server;
  let callbackUrl: string;
  let received: Received[];
  let answers: (number | 'silence')[];
  let echo: (challenge: string) => string;

  beforeEach(async () => {
    simulator = await startSimulator({ redelivery: { delayMs: 1, ackTimeoutMs: 500 } });
    received = [];
    answers = [];
    echo = (challenge) => JSON.stringify({ 'hub.challenge': challenge });
    callback = createServer(async (request, response) => {
      let body = '';
      for await (const chunk of request) body += chunk;
      const query = new URL(request.url ?? '', 'http://callback').searchParams;
      const signature = request.headers['x-strava-signature'];
      received.push({ method: request.method ?? '', query, body, signature: signature?.toString() });
      const status = answers.shift() ?? 200;
      if (status === 'silence') return;
      response.writeHead(status);
      response.end(request.method === 'GET' ? echo(query.get('hub.challenge') ?? '') : 'thanks');
    });
    await new Promise<void>((resolve) => callback.listen(0, '127.0.0.1', resolve));
    callbackUrl = `http://127.0.0.1:${(callback.address() as AddressInfo).port}/hook?of=us`;
  });
  afterEach(async () => {
    await simulator.close();
    callback.closeAllConnections();
    await new Promise((resolve) => callback.close(resolve));
  });

  const credentials = { client_id: 'simulator-client', client_secret: 'simulator-secret' };
  const subscriptionsUrl = (rest = '') =>
    `${simulator.url}/api/v3/push_subscriptions${rest}?${new URLSearchParams(credentials)}`;
  const create = (fields: Record<string, string> = {}) =>
    fetch(`${simulator.url}/api/v3/push_subscriptions`, {
      method: 'POST',
      body: new URLSearchParams({ ...credentials, callback_url: callbackUrl, verify_token: 'tell', ...fields }),
    });

  it('subscribes after a handshake made while the creating call is open', async () => {
    const created = await create();
    expect(created.status).toBe(201);
    const { id } = (await created.json()) as { id: number };
    expect(received).toHaveLength(1);
    const { method, query } = received[0] as Received;
    expect(method).toBe('GET');
    expect(query.get('of')).toBe('us');
    expect(query.get('hub.mode')).toBe('subscribe');
    expect(query.get('hub.verify_token')).toBe('tell');

    expect(await (await fetch(subscriptionsUrl())).json()).toEqual([
      {
        id,
        resource_state: 2,
        application_id: 1,
        callback_url: callbackUrl,
        created_at: expect.any(String),
        updated_at: expect.any(String),
      },
    ]);
    expect((await fetch(subscriptionsUrl(`/${id}`), { method: 'DELETE' })).status).toBe(204);
    expect((await fetch(subscriptionsUrl(`/${id}`), { method: 'DELETE' })).status).toBe(404);
    expect(simulator.subscriptions).toEqual([]);
  });

  it('refuses a callback that does not repeat the challenge, a second subscription, and a wrong secret', async () => {
    echo = () => '{"hub.challenge":"something else"}';
    const unverified = await create();
    expect(unverified.status).toBe(400);
    expect(await unverified.json()).toEqual({
      message: 'Bad Request',
      errors: [{ resource: 'PushSubscription', field: 'callback url', code: 'not verifiable' }],
    });
    echo = () => 'not JSON';
    expect((await create()).status).toBe(400);
    echo = (challenge) => JSON.stringify({ 'hub.challenge': challenge });
    answers.push(403);
    expect((await create()).status).toBe(400);
    expect((await create({ callback_url: 'http://127.0.0.1:9/' })).status).toBe(400);
    expect((await create({ client_secret: 'wrong' })).status).toBe(401);
    simulator.subscribe(callbackUrl);
    expect(await (await create()).json()).toMatchObject({ errors: [{ code: 'already exists' }] });
  });

  it('announces a new activity, its changes and its deletion, with exact ids', async () => {
    const subscription = simulator.subscribe(callbackUrl);
    const athlete = simulator.addAthlete({ id: '9007199254740993' });
    const created = await simulator.createActivityAndNotify(athlete.id, { id: '9223372036854775807' });
    expect(created).toMatchObject({ id: '9223372036854775807', status: 200, body: 'thanks', attempts: 1 });
    await simulator.updateActivityAndNotify(created.id, { name: 'New', sportType: 'Ride', private: true });
    await simulator.deleteActivityAndNotify(created.id, { event_time: 1_700_000_000 });

    const subject = '"object_id":9223372036854775807,"object_type":"activity","owner_id":9007199254740993';
    for (const { body } of received) expect(body).toContain(subject);
    expect(received.map(({ body }) => JSON.parse(body))).toMatchObject([
      { aspect_type: 'create', subscription_id: subscription.id, updates: {} },
      { aspect_type: 'update', updates: { title: 'New', type: 'Ride', private: 'true' } },
      { aspect_type: 'delete', event_time: 1_700_000_000 },
    ]);
  });

  it('announces a deauthorisation, by the athlete or by the application', async () => {
    simulator.subscribe(callbackUrl);
    const [first, second] = [simulator.addAthlete(), simulator.addAthlete()];
    await simulator.deauthorizeAndNotify(first.id);
    const { accessToken } = simulator.grantTokens(second.id);
    const delivered = new Promise((resolve) => simulator.on('delivery', resolve));
    await fetch(`${simulator.url}/oauth/deauthorize?access_token=${accessToken}`, { method: 'POST' });
    await delivered;
    expect(received.map(({ body }) => JSON.parse(body))).toMatchObject([
      { object_type: 'athlete', object_id: Number(first.id), aspect_type: 'update', updates: { authorized: 'false' } },
      { object_type: 'athlete', object_id: Number(second.id), owner_id: Number(second.id) },
    ]);
  });

  it('redelivers when there is no 200 in time, three times in all', async () => {
    simulator.subscribe(callbackUrl);
    answers.push(503, 'silence', 200);
    const attempts: number[] = [];
    simulator.on('delivery', ({ status }) => attempts.push(status));
    expect(await simulator.deliver({ object_id: 1, owner_id: 2 })).toMatchObject({ status: 200, attempts: 3 });
    expect(attempts).toEqual([503, 0, 200]);
    expect(new Set(received.map(({ body }) => body)).size).toBe(1);

    answers.push(500, 500, 'silence', 200);
    const lost = await simulator.deliver({ object_id: 1, owner_id: 2 });
    expect(lost).toMatchObject({ status: 0, attempts: 3, error: 'no answer within 500 ms' });
  });

  it('delivers nothing without a subscription, except to an explicit address', async () => {
    expect(await simulator.deliver({ object_id: 1 })).toMatchObject({ status: 0, attempts: 0 });
    expect(await simulator.deliver({ object_id: 1 }, { url: callbackUrl })).toMatchObject({ status: 200, attempts: 1 });
    expect(await simulator.createActivityAndNotify(simulator.addAthlete().id)).toMatchObject({ attempts: 0 });
  });

  it('signs what it sends, by its own clock, when it has a secret', async () => {
    simulator.subscribe(callbackUrl);
    simulator.settings.signingSecret = 'shared';
    simulator.settings.now = () => 1_800_000_000_500;
    await simulator.deliver({ object_id: 1 });
    await simulator.deliver({ object_id: 1 }, { signingSecret: null });
    const [signed, unsigned] = received as [Received, Received];
    const digest = createHmac('sha256', 'shared').update(`1800000000.${signed.body}`).digest('hex');
    expect(signed.signature).toBe(`t=1800000000,v1=${digest}`);
    expect(unsigned.signature).toBeUndefined();
  });

  it('lets a person play an athlete on its home page', async () => {
    simulator.settings.redelivery.ackTimeoutMs = 10_000; // whatever else the machine does, nothing is sent twice
    simulator.subscribe(callbackUrl);
    const { id, name } = simulator.addAthlete();
    const press = async (action: string) => {
      const delivered = new Promise((resolve) => simulator.on('delivery', resolve));
      const page = await fetch(simulator.url, { method: 'POST', body: new URLSearchParams({ athlete: id, action }) });
      await delivered;
      return page.text();
    };
    expect(await press('record')).toContain(name);
    await press('rename');
    await press('delete');
    await press('leave');
    expect(received.map(({ body }) => JSON.parse(body))).toMatchObject([
      { object_type: 'activity', aspect_type: 'create' },
      { object_type: 'activity', aspect_type: 'update', updates: { title: expect.stringMatching(/!$/) } },
      { object_type: 'activity', aspect_type: 'delete' },
      { object_type: 'athlete', aspect_type: 'update' },
    ]);
  });

  it('gives up waiting deliveries when it closes', async () => {
    simulator.subscribe(callbackUrl);
    simulator.settings.redelivery.delayMs = 60_000;
    answers.push(503);
    const attempted = new Promise((resolve) => simulator.on('delivery', resolve));
    const delivery = simulator.deliver({ object_id: 1 });
    await attempted;
    await simulator.close();
    expect(await delivery).toMatchObject({ status: 503, attempts: 1, error: 'the simulator was closed' });
  });
});
