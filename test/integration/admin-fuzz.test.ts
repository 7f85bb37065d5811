import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { ask, readDescription } from '../support/admin.ts';
import { ADMIN_TOKEN, type Rig, startRig } from '../support/service.ts';

let rig: Rig;
const REQUESTS = Number(process.env.FUZZ_REQUESTS ?? 800);

beforeAll(async () => {
  rig = await startRig({ env: { SERVICE_ROLES: 'web' } });
});
afterAll(() => rig.close());

const TEXTS = [
  ...['', '0', '1', '2', '-1', '1e3', '9223372036854775807', '9223372036854775808', '50', '200', '201', '1000001'],
  ...['null', 'true', '\0', 'ÿ', '🏃', "' OR 1=1 --", '%00', '../..', 'x'.repeat(3000)],
  ...['pending', 'working', 'done', 'failed', 'manual', 'webhook', 'accepted', 'stale', 'healthy'],
  ...['2026-02-30T00:00:00Z', '0000-01-01T00:00:00Z', '9999-12-31T23:59:59Z', '2026-01-01T00:00:00+23:59'],
  ...['2026-01-01T00:00:00.123456Z_5', '0000-01-01T00:00:00Z_5', '2026-02-30T00:00:00Z_1', '2026-01-01T00:00:00Z_0'],
];
const VALUES = [
  null,
  true,
  0,
  1,
  -5,
  1.5,
  1e300,
  '12',
  'x',
  '',
  [],
  {},
  '\0',
  '\ud800',
  'manual',
  '9223372036854775807',
];
// These ask the provider, never end, or are no JSON.
const LEFT_OUT = /events$|\/webhooks|connect$|callback$|openapi|metrics/;

it('answers any request as its description says, and never with a server error', async () => {
  const description = await readDescription(rig);
  const random = randomNumbers(20_260_101);
  const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)] as T;
  const smallId = () => String(1 + Math.floor(random() * 40));
  for (let id = 1; id <= 30; id += 1)
    await ask(rig, 'POST', '/api/admin/activity-jobs', { activityId: id, athleteId: 1 + (id % 3) });
  for (let id = 100; id < 110; id += 1)
    await rig.post({
      object_type: 'activity',
      object_id: id,
      aspect_type: pick(['create', 'update', 'delete']),
      owner_id: 3,
      subscription_id: 1,
      event_time: 1_700_000_000,
    });

  const wrong: string[] = [];
  const operations = description.operations.filter(({ path }) => !LEFT_OUT.test(path));
  for (let count = 0; count < REQUESTS; count += 1) {
    const { method, path, operation } = pick(operations);
    const place = path.replace(/\{[a-zA-Z]+\}/g, () =>
      random() < 0.7 ? smallId() : encodeURIComponent(pick(TEXTS)) || 'x',
    );
    const query = operation.parameters
      .filter((one) => one.in === 'query' && random() < (one.required ? 0.9 : 0.4))
      .map(({ name }) => `${encodeURIComponent(name)}=${encodeURIComponent(pick(TEXTS))}`);
    const fields = operation.bodyFields.filter(() => random() < 0.85);
    const body = Object.fromEntries(
      fields.map((name) => [name, /Id$/.test(name) && random() < 0.6 ? smallId() : pick(VALUES)]),
    );
    const response = await fetch(`${rig.service.url}${place}${query.length > 0 ? '?' : ''}${query.join('&')}`, {
      method,
      headers: {
        authorization: `Bearer ${ADMIN_TOKEN}`,
        ...(operation.requestBody ? { 'content-type': 'application/json' } : {}),
      },
      ...(operation.requestBody ? { body: JSON.stringify(body) } : {}),
    });
    const text = await response.text();
    const isJson = response.headers.get('content-type')?.includes('json') === true;
    const answer = { status: response.status, headers: response.headers, body: isJson ? JSON.parse(text) : text };
    const misfits = response.status >= 500 ? [`status ${response.status}`] : description.misfits(method, place, answer);
    if (misfits.length > 0)
      wrong.push(`${method} ${place}?${query.join('&')} ${JSON.stringify(body)}: ${misfits.join('; ')}`);
  }
  expect(wrong).toEqual([]);
}, 600_000);

it('answers any delivery and any request without a token, and never with a server error', async () => {
  await rig.service.database.query(
    `INSERT INTO subscription (subscription_id, callback_url) VALUES (1, 'http://a') ON CONFLICT DO NOTHING`,
  );
  const random = randomNumbers(20_260_102);
  const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)] as T;
  const usual = { object_type: 'activity', object_id: 5, aspect_type: 'create', owner_id: 3, subscription_id: 1 };
  const event = () => {
    const fields = Object.entries({ ...usual, event_time: 1_700_000_000, updates: {} });
    const kept = fields.filter(() => random() < 0.95);
    return JSON.stringify(
      Object.fromEntries(kept.map(([name, value]) => [name, random() < 0.15 ? pick(VALUES) : value])),
    );
  };
  const body = () => (random() < 0.8 ? event() : pick([event().slice(0, 40), '[', '"x"', ...TEXTS]));
  const types = [
    'application/json',
    'application/json; charset=utf-16',
    'text/plain',
    'application/x-www-form-urlencoded',
    '',
  ];
  const paths = [
    '/',
    '/healthz',
    '/api/provider/callback',
    '/api/provider/connect',
    '/api/admin/activity-jobs',
    '/api/x',
  ];
  const wrong: string[] = [];
  for (let count = 0; count < REQUESTS; count += 1) {
    const isDelivery = random() < 0.7;
    const query = () => `?${pick(['state', 'code', 'hub.mode', 'hub.challenge'])}=${encodeURIComponent(pick(TEXTS))}`;
    const path = isDelivery ? '/api/provider/webhook' : `${pick([...paths, '/api/provider/webhook'])}${query()}`;
    const method = isDelivery ? 'POST' : pick(['GET', 'GET', 'POST', 'PUT', 'DELETE', 'OPTIONS']);
    const signature = random() < 0.2 ? { 'x-strava-signature': pick(['t=1,v1=00', 't=,v1=', 'x', ',,,']) } : {};
    const headers = { 'content-type': random() < 0.8 ? 'application/json' : pick(types), ...signature };
    const sent = method === 'GET' ? {} : { body: body() };
    const response = await fetch(`${rig.service.url}${path}`, { method, headers, redirect: 'manual', ...sent });
    await response.arrayBuffer();
    if (response.status >= 500)
      wrong.push(`${method} ${path} ${JSON.stringify({ headers, ...sent })}: ${response.status}`);
  }
  expect(wrong).toEqual([]);
}, 600_000);

/** The same numbers from 0 to 1 in each run (a linear congruential generator). */
function randomNumbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff;
    return state / 0x80000000;
  };
}
