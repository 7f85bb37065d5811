import { createHmac } from 'node:crypto';
import { Writable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import winston from 'winston';
import { ASPECTS } from '../../src/domain/job.ts';
import { createKnownSubscriptions } from '../../src/flows/known-subscriptions.ts';
import { createRefusalLog } from '../../src/http/refusal-log.ts';
import { readWebhookEvent } from '../../src/http/webhook-event.ts';
import { forgetSubscription, saveSubscription } from '../../src/store/subscriptions.ts';
import { createTestDatabase, openTestDatabase } from '../support/database.ts';
import { type Rig, startRig, VERIFY_TOKEN } from '../support/service.ts';
import { until } from '../support/until.ts';

const SECRET = 'webhook-secret-of-the-tests';
let lastId = 1000;
const newEvent = (fields = {}) => {
  lastId += 1;
  const event_time = Math.floor(Date.now() / 1000);
  return {
    object_type: 'activity',
    object_id: lastId,
    aspect_type: 'create',
    owner_id: 5,
    subscription_id: 7,
    event_time,
    ...fields,
  };
};
/** A logger, and the lines that it has written. */
function keepLog(): { logger: winston.Logger; lines: string[] } {
  const lines: string[] = [];
  const stream = new Writable({
    write: (line, _encoding, done) => {
      lines.push(String(line));
      done();
    },
  });
  return { lines, logger: winston.createLogger({ transports: [new winston.transports.Stream({ stream })] }) };
}
const isStored = async (rig: Rig, event: { object_id: number }) =>
  (await rig.service.database.query('SELECT FROM webhook_event WHERE object_id = $1', [event.object_id])).length === 1;

describe('with PROVIDER_WEBHOOK_SECRET', () => {
  let rig: Rig;
  beforeAll(async () => {
    rig = await startRig({ env: { SERVICE_ROLES: 'web', PROVIDER_WEBHOOK_SECRET: SECRET } });
  });
  afterAll(() => rig.close());

  const sign = (body: string, seconds: number, secret = SECRET) =>
    createHmac('sha256', secret).update(`${seconds}.${body}`).digest('hex');
  const now = () => Math.floor(Date.now() / 1000);
  const postSigned = async (header: (body: string) => string | undefined) => {
    const event = newEvent();
    const body = JSON.stringify(event);
    const signature = header(body);
    const response = await rig.post(body, signature === undefined ? {} : { 'x-strava-signature': signature });
    await response.arrayBuffer();
    return { status: response.status, stored: await isStored(rig, event) };
  };
  const TAKEN = { status: 200, stored: true };
  const REFUSED = { status: 403, stored: false };

  it('takes a delivery that is signed as the provider signs', async () => {
    rig.simulator.settings.signingSecret = SECRET;
    const event = newEvent();
    const url = `${rig.service.url}/api/provider/webhook`;
    expect(await rig.simulator.deliver(event, { url })).toMatchObject({ status: 200 });
    expect(await isStored(rig, event)).toBe(true);
  });

  it.each<[string, (body: string) => string | undefined, object]>([
    [
      'several v1, one of them right: taken',
      (body) => `t=${now()},v1=${'0'.repeat(64)}, v1=${sign(body, now())}`,
      TAKEN,
    ],
    ['290 s old: taken', (body) => `t=${now() - 290},v1=${sign(body, now() - 290)}`, TAKEN],
    ['310 s old', (body) => `t=${now() - 310},v1=${sign(body, now() - 310)}`, REFUSED],
    ['310 s ahead', (body) => `t=${now() + 310},v1=${sign(body, now() + 310)}`, REFUSED],
    ['missing', () => undefined, REFUSED],
    ['made with another secret', (body) => `t=${now()},v1=${sign(body, now(), 'another')}`, REFUSED],
    ['of another body', (body) => `t=${now()},v1=${sign(`${body} `, now())}`, REFUSED],
    ['of another time', (body) => `t=${now() - 5},v1=${sign(body, now())}`, REFUSED],
    ['cut short', (body) => `t=${now()},v1=${sign(body, now()).slice(0, 32)}`, REFUSED],
    ['not hexadecimal', () => `t=${now()},v1=${'z'.repeat(64)}`, REFUSED],
    ['of another version', (body) => `t=${now()},v0=${sign(body, now())}`, REFUSED],
    ['without a time', (body) => `v1=${sign(body, now())}`, REFUSED],
  ])('the signature is %s', async (_case, header, expected) => {
    expect(await postSigned(header)).toEqual(expected);
  });
});

describe('a delivery that is refused', () => {
  it('is in the log with the reason, at most once a minute, and with neither secret nor body', async () => {
    const { logger, lines } = keepLog();
    const rig = await startRig({ env: { SERVICE_ROLES: 'web', PROVIDER_WEBHOOK_SECRET: SECRET }, logger });
    const refusals = () => lines.filter((line) => line.includes('webhook refused')).map((line) => JSON.parse(line));
    try {
      for (const _ of [1, 2, 3]) expect((await rig.post(newEvent({ owner_id: 987_654_321 }))).status).toBe(403);
      expect(refusals()).toEqual([
        expect.objectContaining({
          level: 'warn',
          component: 'webhook',
          why: 'X-Strava-Signature is missing or unreadable; it must be t=<unix seconds>,v1=<hex>.',
          refused: 1,
        }),
      ]);
      const text = lines.join('');
      for (const kept of [SECRET, '987654321']) expect(text).not.toContain(kept);
    } finally {
      await rig.close();
    }
  });

  it('names the unreadable fields, but never their content', () => {
    const { logger, lines } = keepLog();
    let time = 0;
    const warn = createRefusalLog({ logger, now: () => time });
    const refuse = (event: object) => {
      try {
        readWebhookEvent(event, false);
      } catch (error) {
        warn(error);
      }
    };
    refuse(newEvent({ owner_id: 'forged', updates: { 'from the sender': {} } }));
    time = 59_999;
    warn(new Error('request entity too large'));
    time = 60_000;
    warn(new Error('request entity too large'));
    expect(lines.map((line) => JSON.parse(line))).toEqual([
      expect.objectContaining({ why: 'Bad request: body.owner_id, body.updates', refused: 1 }),
      expect.objectContaining({ why: 'its body is too large, incomplete or cannot be decompressed', refused: 2 }),
    ]);
    expect(lines.join('')).not.toMatch(/forged|from the sender/);
  });
});

describe('the subscription that a delivery names', () => {
  it('is unknown at first: the delivery is answered 503, and the provider is asked once a minute by all replicas', async () => {
    const rig = await startRig({ env: { SERVICE_ROLES: 'web' }, subscriptions: [] });
    const replica = await rig.startReplica();
    const asked = () => rig.simulator.calls.filter(({ path }) => path.includes('push_subscriptions')).length;
    const event = newEvent();
    for (const url of [rig.service.url, replica.url, rig.service.url]) {
      const answer = await fetch(`${url}/api/provider/webhook`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(event),
      });
      expect(answer.status).toBe(503);
      expect(answer.headers.get('retry-after')).toBe('5');
    }
    await until(async () => asked() > 0, 'the question to the provider');
    expect(asked()).toBe(1);
    expect(await isStored(rig, event)).toBe(false);
    await rig.close();
  });

  it('is known once the provider has listed it: the event is accepted when it is delivered again', async () => {
    const rig = await startRig({ env: { SERVICE_ROLES: 'web' }, subscriptions: [] });
    rig.simulator.subscribe(`${rig.service.url}/api/provider/webhook`);
    const event = newEvent({ subscription_id: rig.simulator.subscriptions[0]?.id });
    expect((await rig.post(event)).status).toBe(503);
    const known = async () => (await rig.service.database.query('SELECT FROM subscription')).length === 1;
    await until(known, 'the answer of the provider');
    expect((await rig.post(event)).status).toBe(200);
    await rig.close();
  });

  it('cannot be guessed for long: after 20 answers of 403 an address gets 429, and the known one is never limited', async () => {
    const { logger, lines } = keepLog();
    const rig = await startRig({ env: { SERVICE_ROLES: 'web' }, logger });
    const statuses: number[] = [];
    for (let id = 900; id < 922; id += 1) statuses.push((await rig.post(newEvent({ subscription_id: id }))).status);
    expect(statuses).toEqual([...Array(20).fill(403), 429, 429]);
    expect((await rig.post(newEvent())).status).toBe(200);
    expect(lines.filter((line) => line.includes('refused deliveries limited'))).toHaveLength(1);
    const { values } = await rig.service.metrics.webhookEvents.get();
    expect(values.find(({ labels }) => labels.result === 'limited')?.value).toBe(2);
    await rig.close();
  });

  it('must be one that the service created or listed; any other is 403 and stores nothing', async () => {
    const rig = await startRig({ env: { SERVICE_ROLES: 'web' }, subscriptions: [] });
    const created = await rig.admin('/api/admin/webhooks', {
      method: 'POST',
      body: JSON.stringify({ callbackUrl: `${rig.service.url}/api/provider/webhook`, verifyToken: VERIFY_TOKEN }),
    });
    const { id } = (await created.json()) as { id: string };
    const [good, forged] = [newEvent({ subscription_id: Number(id) }), newEvent({ subscription_id: 99_999 })];
    expect((await rig.post(good)).status).toBe(200);
    const refused = await rig.post(forged);
    expect(refused.status).toBe(403);
    expect(refused.headers.get('content-type')).toMatch('application/problem+json');
    expect(((await refused.json()) as { detail: string }).detail).toContain('99999');
    expect(await isStored(rig, forged)).toBe(false);

    // Another replica learns of it without a restart, and forged deauthorisations erase nothing.
    const replica = await rig.startReplica();
    const elsewhere = await fetch(`${replica.url}/api/provider/webhook`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        ...newEvent({ subscription_id: 99_999 }),
        object_type: 'athlete',
        updates: { authorized: 'false' },
      }),
    });
    expect(elsewhere.status).toBe(403);
    await rig.close();
  });

  it('is counted from zero where it is refused, whatever the delivery is about: an alert sees the first ones', async () => {
    const rig = await startRig({ env: { SERVICE_ROLES: 'web' }, subscriptions: [] });
    await saveSubscription(rig.service.database, { id: '7', callbackUrl: '' });
    const refused = async () => {
      const { values } = await rig.service.metrics.webhookEvents.get();
      return values.filter(({ labels }) => labels.result === 'refused');
    };
    const before = await refused();
    expect(before.every(({ value }) => value === 0)).toBe(true);
    for (const object_type of ['activity', 'athlete'])
      for (const aspect_type of ASPECTS)
        expect((await rig.post(newEvent({ object_type, aspect_type, subscription_id: 8 }))).status).toBe(403);
    expect((await rig.post('no JSON')).status).toBe(400);

    const after = await refused();
    expect(after.map(({ labels }) => labels)).toEqual(before.map(({ labels }) => labels));
    expect(after.map(({ value }) => value)).toEqual(before.map(() => 1));
    await rig.close();
  });

  it('is looked up again after the clock was set back: what another replica has deleted is not trusted until then', async () => {
    const testDatabase = await createTestDatabase();
    const database = openTestDatabase(testDatabase.url);
    let now = Date.now();
    const known = createKnownSubscriptions({
      database,
      logger: keepLog().logger,
      now: () => now,
      askProvider: async () => undefined,
    });
    for (const id of ['7', '8']) await saveSubscription(database, { id, callbackUrl: '' });
    await known.mustTrust('7');
    await forgetSubscription(database, '7');
    now -= 3_600_000;
    await expect(known.mustTrust('7')).rejects.toThrow('Subscription 7');
    await database.close();
    await testDatabase.drop();
  });
});
