import { once } from 'node:events';
import { request as httpRequest } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { keepLog } from '../support/kept-log.ts';
import { metric } from '../support/metric.ts';
import { problemOf } from '../support/problem.ts';
import { type Rig, startRig } from '../support/service.ts';
import { until } from '../support/until.ts';

let rig: Rig;
const { logger, lines } = keepLog('warn');
beforeAll(async () => {
  rig = await startRig({ logger, env: { SERVICE_ROLES: 'web' } });
});
afterAll(() => rig.close());

const PATH = '/api/provider/webhook';
const EVENT = {
  object_type: 'activity',
  object_id: 1360128428,
  aspect_type: 'create',
  owner_id: 134815,
  subscription_id: 120475,
  event_time: 1516126040,
  updates: {},
};
const eventWith = (fields: object) => ({ ...EVENT, ...fields });
/** An event as text, with a member written exactly so. */
const eventText = (member: string, value: string) =>
  JSON.stringify(eventWith({ [member]: 'VALUE' })).replace('"VALUE"', value);
const countRefused = async () =>
  (await metric(
    rig.service.url,
    'activity_sync_webhook_events_total{object_type="unknown",aspect_type="unknown",result="refused"}',
  )) ?? 0;
const countStored = async () => {
  const [row] = await rig.service.database.query<{ stored: number }>(
    'SELECT (SELECT count(*) FROM webhook_event)::int + (SELECT count(*) FROM activity_fetch_job)::int AS stored',
  );
  return row?.stored;
};

describe('POST /api/provider/webhook', () => {
  it('answers 200 with the id of the job, which is already in the view', async () => {
    const response = await rig.post(EVENT);
    expect(response.status).toBe(200);
    const { id } = await rig.untilJob(String(EVENT.object_id), () => true);
    expect(await response.json()).toEqual({ status: 'accepted', jobId: id });
  });

  it('takes ids as numbers and as numeric strings, exactly up to 2^63-1', async () => {
    for (const [id, text] of [
      ['9223372036854775807', '9223372036854775807'],
      ['9007199254740993', '"9007199254740993"'],
    ] as const) {
      expect((await rig.post(eventText('object_id', text))).status).toBe(200);
      expect((await rig.untilJob(id, () => true)).activityId).toBe(id);
    }
  });

  it('ignores fields that it does not know, and takes an event without updates', async () => {
    const { updates, ...rest } = eventWith({ object_id: 11, new_field: { a: [1] } }) as typeof EVENT;
    expect(updates).toEqual({});
    expect((await rig.post(rest)).status).toBe(200);
    expect((await rig.post(eventWith({ object_id: 12, updates: null }))).status).toBe(200);
  });

  it('keeps updates with NUL and halves of surrogate pairs in a form that PostgreSQL holds', async () => {
    const body = eventText('object_id', '13').replace(
      '"updates":{}',
      String.raw`"updates":{"title":"a\u0000b\ud83d","ke\u0000y":"x"}`,
    );
    expect((await rig.post(body)).status).toBe(200);
    const [row] = await rig.service.database.query('SELECT updates FROM webhook_event WHERE object_id = 13');
    expect(row).toEqual({ updates: { title: 'a\ufffdb\ufffd', 'ke\ufffdy': 'x' } });
  });

  it('accepts a thousand events at once', async () => {
    const answers = await Promise.all(
      Array.from(
        { length: 1000 },
        async (_unused, n) =>
          (await rig.post(eventWith({ object_id: 50_000 + (n % 900), event_time: 1_600_000_000 + n }))).status,
      ),
    );
    expect(new Set(answers)).toEqual(new Set([200]));
    const [row] = await rig.service.database.query(
      'SELECT count(*)::int AS jobs FROM activity_fetch_job WHERE activity_id BETWEEN 50000 AND 50899',
    );
    expect(row).toEqual({ jobs: 900 });
  });
});

describe('bad input is refused with a clear answer, and nothing is stored', () => {
  const keyed = (count: number) => Object.fromEntries(Array.from({ length: count }, (_unused, n) => [`k${n}`, []]));
  const deep = '['.repeat(30_000) + ']'.repeat(30_000);
  it.each<[string, string, number, string[] | undefined]>([
    ['not JSON', '{"object_type":', 400, ['body']],
    ['an empty body', '', 400, ['body']],
    ['another type: a list', '[]', 400, ['body']],
    ['another type: null', 'null', 400, ['body']],
    [
      'missing fields',
      '{}',
      400,
      [
        'body.object_type',
        'body.object_id',
        'body.aspect_type',
        'body.owner_id',
        'body.subscription_id',
        'body.event_time',
      ],
    ],
    ['an id of 0', eventText('object_id', '0'), 400, ['body.object_id']],
    ['an id of 2^63', eventText('object_id', '9223372036854775808'), 400, ['body.object_id']],
    ['an id of 2^64', eventText('owner_id', '"18446744073709551616"'), 400, ['body.owner_id']],
    ['a negative id', eventText('object_id', '-5'), 400, ['body.object_id']],
    ['a large negative id', eventText('object_id', '-9223372036854775808'), 400, ['body.object_id']],
    ['a fractional id', eventText('object_id', '1.5'), 400, ['body.object_id']],
    ['a large fractional id', eventText('object_id', '9007199254740993.5'), 400, ['body.object_id']],
    ['an id in exponent form that is not exact', eventText('object_id', '1e20'), 400, ['body.object_id']],
    ['an id that is true', eventText('object_id', 'true'), 400, ['body.object_id']],
    ['an id that is a list', eventText('object_id', '[5]'), 400, ['body.object_id']],
    ['an id with letters', eventText('object_id', '"0x10"'), 400, ['body.object_id']],
    ['an unknown aspect', eventText('aspect_type', '"rename"'), 400, ['body.aspect_type']],
    ['an unknown object', eventText('object_type', '"route"'), 400, ['body.object_type']],
    ['a time in words', eventText('event_time', '"yesterday"'), 400, ['body.event_time']],
    ['a time that is true', eventText('event_time', 'true'), 400, ['body.event_time']],
    ['a fractional time', eventText('event_time', '1516126040.5'), 400, ['body.event_time']],
    ['a time of 0', eventText('event_time', '0'), 400, ['body.event_time']],
    ['a time in milliseconds', eventText('event_time', '1516126040000'), 400, ['body.event_time']],
    ['updates that are a text', eventText('updates', '"all"'), 400, ['body.updates']],
    ['updates that are nested', eventText('updates', '{"title":{"a":1}}'), 400, ['body.updates.title']],
    ['updates with 51 keys', eventText('updates', JSON.stringify(keyed(51))), 400, ['body.updates']],
    [
      'updates with as many keys as a body holds',
      eventText('updates', JSON.stringify(keyed(5500))),
      400,
      ['body.updates'],
    ],
    ['deep nesting', eventText('updates', deep), 400, undefined],
    [
      'deep nesting beside a large id',
      eventText('updates', deep).replace('1360128428', '9223372036854775807'),
      400,
      undefined,
    ],
    ['a body of 64 KiB and a byte', JSON.stringify(eventWith({ pad: 'x'.repeat(65_537) })), 413, undefined],
    ['a body of 10 MB', JSON.stringify(eventWith({ pad: 'x'.repeat(10_000_000) })), 413, undefined],
  ])('%s', async (_case, body, status, fields) => {
    const before = await countStored();
    const problem = await problemOf(await rig.post(body), status);
    if (fields) expect(problem.fields).toEqual(fields);
    expect(await countStored()).toBe(before);
  });

  it.each(['text/plain', 'application/x-www-form-urlencoded', 'application/jsonx'])(
    'the content type %s',
    async (type) => {
      const before = await countStored();
      await problemOf(await rig.post(EVENT, { 'content-type': type }), 415);
      expect(await countStored()).toBe(before);
    },
  );

  it('an unknown content encoding', async () => {
    await problemOf(await rig.post(EVENT, { 'content-encoding': 'zip' }), 415);
    await problemOf(await rig.post(EVENT, { 'content-encoding': 'gzip' }), 400);
  });

  it.each(['PUT', 'DELETE', 'PATCH', 'OPTIONS'])('the method %s', async (method) => {
    const response = await fetch(`${rig.service.url}${PATH}`, { method });
    await problemOf(response, 405);
    expect(response.headers.get('allow')).toBe('GET, HEAD, POST');
  });

  it.each([
    ['plain', { 'content-type': 'application/json' }],
    ['one that Express reads', { 'content-type': 'application/json', 'content-encoding': 'gzip' }],
  ])('an incomplete body: %s; it is counted, and no database error is reported', async (_case, headers) => {
    lines.splice(0);
    const before = await countRefused();
    const request = httpRequest(`${rig.service.url}${PATH}`, {
      method: 'POST',
      headers: { ...headers, 'content-length': 100 },
    });
    const failed = once(request, 'error');
    request.write('{"obj', () => request.destroy(new Error('broken off')));
    await failed;
    await until(async () => (await countRefused()) === before + 1, 'the count of a body that was broken off');
    expect(lines).toEqual([]);
  });

  it('is counted as refused', async () => {
    expect(await rig.service.metrics.registry.getSingleMetricAsString('activity_sync_webhook_events_total')).toMatch(
      /result="refused"\} [1-9]/,
    );
  });
});
