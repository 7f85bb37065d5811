import { METHODS } from 'node:http';
import fc from 'fast-check';
import type { Description, JsonSchema } from './admin.ts';

/** Who sends a request; the test knows the tokens. */
export const SENDERS = ['admin', 'reader', 'writer', 'session', 'wrong', 'stranger'] as const;
export type Sender = (typeof SENDERS)[number];

/** A request to send. In its path and headers `{state}`, `{link}` and `{code}` are to be filled in. */
export interface FuzzRequest {
  method: string;
  path: string;
  sender: Sender;
  headers: Record<string, string>;
  body: Buffer | undefined;
  /** The described operation, where nothing but values was made up: its answer must be described too. */
  operation: { method: string; path: string } | undefined;
}

const text = fc.oneof(
  fc.constantFrom(
    ...['', '0', '1', '2', '-1', '1e3', '9223372036854775807', '9223372036854775808', '50', '200', '201', '1000001'],
    ...[
      'null',
      'true',
      '\0',
      'a\0b',
      'ÿ',
      '🏃',
      "' OR 1=1 --",
      '%00',
      '../..',
      'x'.repeat(3000),
      'latest',
      '__proto__',
    ],
    ...['pending', 'working', 'done', 'failed', 'manual', 'webhook', 'accepted', 'stale', 'healthy', 'all', 'read'],
    ...['2026-02-30T00:00:00Z', '0000-01-01T00:00:00Z', '9999-12-31T23:59:59Z', '2026-01-01T00:00:00+23:59'],
    ...['2026-01-01T00:00:00.123456Z_5', '0000-01-01T00:00:00Z_5', '2026-02-30T00:00:00Z_1', '2026-01-01T00:00:00Z_0'],
    ...[
      'activity.created',
      'activity.created,athlete.connected',
      'https://1.1.1.1/hook',
      'http://[::1]/',
      'https://a:b@c',
    ],
  ),
  fc.string({ unit: 'binary', maxLength: 20 }),
);
const smallId = fc.integer({ min: 1, max: 40 }).map(String);
/** Mostly what a client sends that means well; the rest is made up. */
function mostly<A, B>(plain: fc.Arbitrary<A>, odd: fc.Arbitrary<B>): fc.Arbitrary<A | B> {
  return fc.oneof<fc.MaybeWeightedArbitrary<A | B>[]>({ weight: 4, arbitrary: plain }, { weight: 1, arbitrary: odd });
}
const nothing = fc.constant(undefined);
const value = fc.oneof(
  { weight: 4, arbitrary: fc.oneof(smallId, text) },
  {
    weight: 2,
    arbitrary: fc.constantFrom<unknown>(null, true, false, 0, 1, -5, 1.5, 1e300, [], {}, '\ud800', [
      'activity.updated',
    ]),
  },
  { weight: 1, arbitrary: fc.jsonValue({ maxDepth: 3 }) },
);
const escapes = fc.constantFrom('%00', '%', '%ff', '%2e%2e%2f', '//', '%f0%9f%8f%83', ';', "'", '%0d%0aX:y');

// A header is made of Latin-1 without controls.
const headerText = text.map((one) => one.replace(/[^\t\x20-\x7e\x80-\xff]/g, '').slice(0, 2000));
const oddHeaders: fc.Arbitrary<Record<string, string>> = fc
  .tuple(
    fc.constantFrom(
      ...['accept', 'authorization', 'content-type', 'content-encoding', 'cookie', 'expect', 'host', 'if-none-match'],
      ...['last-event-id', 'origin', 'range', 'sec-fetch-site', 'x-forwarded-for', 'x-forwarded-proto'],
      ...['x-strava-signature', 'x-http-method-override', 'upgrade-insecure-requests'],
    ),
    fc.oneof(
      headerText,
      fc.constantFrom(
        ...[
          'text/html',
          'text/event-stream',
          '*/*;q=2',
          'application/json; charset=utf-16',
          'text/plain',
          'gzip',
          'br',
        ],
        ...['Bearer', 'Bearer a b', 'Basic YTpi', 'Bearer ast_x', '100-continue', 'bytes=0-1', 'same-origin', 'null'],
        ...['*', 'W/"x", "y"', '","', 'activity_sync_session=%', 'activity_sync_session=x; activity_sync_session=y'],
        ...['activity_sync_connect=;;=', '[::1', 'a:b:c', '::1, ,', 't=1,v1=00', 't=,v1=', ',,,'],
        ...['application/x-www-form-urlencoded'],
      ),
    ),
  )
  .map(([name, content]) => ({ [name]: content }));
const json = { 'content-type': 'application/json' };
const oddBody = fc.oneof(
  value.map((one) => Buffer.from(JSON.stringify(one) ?? '')),
  fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes)),
  fc.constantFrom(
    ...['[', '{"a":', '"x"', '\ufeff{}', '{"__proto__":{"a":1}}', '{"a":1,"a":2}', '{"id":1e400}'].map((one) =>
      Buffer.from(one),
    ),
    Buffer.from('['.repeat(20_000)),
    Buffer.alloc(70_000, 0x20),
  ),
);
const oddBodyOrNot = fc.oneof(oddBody, nothing);
const someMethod = fc.constantFrom(...METHODS.filter((method) => method !== 'CONNECT'));
const someone = fc.constantFrom(...SENDERS);
const search = (pair: fc.Arbitrary<[name: string, value: string]>) =>
  fc
    .array(pair, { maxLength: 3 })
    .map((pairs) => pairs.map(([name, one]) => `${encode(name)}=${encode(one)}`).join('&'));

/** A value that a schema of the description allows, or nearly. */
function plausible(schema: JsonSchema): fc.Arbitrary<unknown> {
  const { type, format, items, properties, anyOf } = schema;
  if (anyOf) return fc.oneof(...anyOf.map(plausible));
  if (schema.enum) return fc.constantFrom(...schema.enum);
  if (Array.isArray(type)) return smallId; // an id: a string or a number
  if (type === 'array') return fc.array(items ? plausible(items) : value, { minLength: 1, maxLength: 2 });
  if (type === 'object') return fc.record(map(properties ?? {}, plausible), { requiredKeys: [] });
  if (type === 'boolean') return fc.boolean();
  if (type === 'null') return fc.constant(null);
  if (type === 'integer' || type === 'number') return fc.integer({ min: 0, max: 3 });
  if (format === 'date-time') return fc.constantFrom('2026-01-01T00:00:00Z', '2025-05-06T12:05:00.5+02:00');
  if (format === 'uri')
    return fc.constantFrom('https://app.example.com/x', 'https://1.1.1.1/hook', 'http://127.0.0.1:1/');
  return fc.oneof(text, smallId);
}

function map<T, U>(from: Record<string, T>, to: (one: T) => U): Record<string, U> {
  return Object.fromEntries(Object.entries(from).map(([name, one]) => [name, to(one)]));
}

// A lone surrogate cannot be encoded.
function encode(one: string): string {
  return encodeURIComponent(one.toWellFormed());
}

function requestOf(operation: Description['operations'][number]): fc.Arbitrary<FuzzRequest> {
  const { method, path } = operation;
  const { parameters, requestBody } = operation.operation;
  const idsInPath = parameters.filter((one) => one.in === 'path').length;
  const fieldsInQuery = parameters
    .filter((one) => one.in === 'query')
    .map(({ name, schema }) => fc.tuple(fc.constant(name), mostly(plausible(schema).map(String), text)));
  const schema = requestBody?.content['application/json']?.schema;
  const fields = map(schema?.properties ?? {}, (field) => mostly(plausible(field), value));
  return fc
    .record({
      ids: fc.array(mostly(smallId, text), { minLength: idsInPath, maxLength: idsInPath }),
      query: fieldsInQuery.length === 0 ? fc.constant('') : search(fc.oneof(...fieldsInQuery)),
      sender: mostly(fc.constantFrom<Sender>('admin', path.startsWith('/api/v1/') ? 'writer' : 'session'), someone),
      body: fc.record(fields, { requiredKeys: schema?.required ?? [] }),
      odd: mostly(nothing, fc.record({ headers: oddHeaders, method: mostly(nothing, someMethod), body: oddBodyOrNot })),
    })
    .map(({ ids, query, sender, body, odd }) => {
      let n = 0;
      const place = path.replace(/\{[a-zA-Z]+\}/g, () => encode(ids[n++] as string) || 'x');
      return {
        method: odd?.method ?? method,
        path: query === '' ? place : `${place}?${query}`,
        sender,
        headers: { ...(requestBody ? json : {}), ...odd?.headers },
        body: odd?.body ?? (requestBody ? Buffer.from(JSON.stringify(body)) : undefined),
        operation: odd ? undefined : { method, path: place },
      };
    });
}

const sentByProvider: fc.Arbitrary<FuzzRequest> = fc
  .record({
    event: fc.record(
      {
        object_type: mostly(fc.constantFrom('activity', 'athlete'), value),
        object_id: mostly(fc.integer({ min: 1, max: 40 }), value),
        aspect_type: mostly(fc.constantFrom('create', 'update', 'delete'), value),
        owner_id: mostly(fc.integer({ min: 1, max: 5 }), value),
        subscription_id: mostly(fc.constant(1), value),
        event_time: mostly(fc.integer({ min: 1_700_000_000, max: 1_900_000_000 }), value),
        updates: fc.oneof(fc.constant({ authorized: 'false' }), fc.dictionary(text, value, { maxKeys: 3 }), value),
      },
      { requiredKeys: ['object_type', 'object_id', 'aspect_type', 'owner_id', 'subscription_id'] },
    ),
    odd: mostly(nothing, fc.record({ headers: oddHeaders, body: oddBodyOrNot })),
  })
  .map(({ event, odd }) => ({
    method: 'POST',
    path: '/api/provider/webhook',
    sender: 'stranger',
    headers: { ...json, ...odd?.headers },
    body: odd?.body ?? Buffer.from(JSON.stringify(event)),
    operation: undefined,
  }));

const sentByBrowser: fc.Arbitrary<FuzzRequest> = fc
  .record({
    method: mostly(fc.constantFrom('GET', 'GET', 'POST', 'HEAD'), someMethod),
    place: fc.oneof(
      fc.constantFrom(
        ...['/', '/sign-in', '/admin', '/style.css', '/healthz', '/readyz', '/metrics', '/api/openapi.json', '/api/x'],
        ...[
          '/api/provider/connect',
          '/api/provider/callback',
          '/api/provider/webhook',
          '/admin/assets/x',
          '/favicon.ico',
        ],
      ),
      fc.constantFrom('/api/provider/connect?link={link}', '/api/provider/connect?link={link}x'),
      ...['code={code}', 'code=x', 'error=access_denied', 'code=x&code=y', ''].map((rest) =>
        fc.constant(`/api/provider/callback?state={state}&${rest}`),
      ),
      fc.oneof(smallId, text).map((id) => `/activities/${encode(id)}/thumbnail.png`),
      fc
        .array(fc.oneof(escapes, fc.constantFrom('a', 'admin', 'api', 'activities', '/')))
        .map((parts) => `/${parts.join('')}`),
    ),
    query: search(
      fc.tuple(
        fc.constantFrom(
          ...['state', 'code', 'error', 'scope', 'link', 'before', 'x'],
          ...['hub.mode', 'hub.challenge', 'hub.verify_token'],
        ),
        text,
      ),
    ),
    tail: mostly(nothing, escapes),
    sender: someone,
    headers: fc.oneof(
      oddHeaders,
      fc.constant({ accept: 'text/html' }),
      fc.constant({ accept: 'text/html', cookie: '{cookie}' }),
    ),
    form: mostly(
      nothing,
      text.map((token) => Buffer.from(`token=${encode(token)}`)),
    ),
  })
  .map(({ method, place, query, tail, sender, headers, form }) => ({
    method,
    path: `${place}${place.includes('?') ? '&' : '?'}${query}${tail ?? ''}`,
    sender,
    headers: {
      ...(form ? { 'content-type': 'application/x-www-form-urlencoded', origin: '{origin}' } : {}),
      ...headers,
    },
    body: form ?? undefined,
    operation: undefined,
  }));

/** Requests to every surface of the service: what is described, the provider's deliveries, pages and the way to connect. */
export function fuzzRequests(operations: Description['operations']): fc.Arbitrary<FuzzRequest> {
  return fc.oneof(
    { weight: 6, arbitrary: fc.oneof(...operations.map(requestOf)) },
    { weight: 2, arbitrary: sentByProvider },
    { weight: 2, arbitrary: sentByBrowser },
  );
}
