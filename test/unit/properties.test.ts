import { createHmac } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import polyline from '@mapbox/polyline';
import fc from 'fast-check';
import { decodeRoute } from '../../src/domain/geo/decode-route.ts';
import { measureExtent, projectRoute } from '../../src/domain/geo/project-route.ts';
import { readCookie } from '../../src/http/cookies.ts';
import { Problem } from '../../src/http/problem.ts';
import { parseBody } from '../../src/http/route.ts';
import { checkSignature } from '../../src/http/signature.ts';
import { readWebhookEvent } from '../../src/http/webhook-event.ts';
import { errorOfAnswer, ProviderError } from '../../src/provider/errors.ts';
import { activityDetailSchema } from '../../src/provider/schemas.ts';

const MB = 1024 * 1024;
const RUNS = { numRuns: 500 };
const MAX_GROWTH_MB = 256;
let idleBytes: number;
beforeAll(() => {
  idleBytes = process.memoryUsage.rss();
});
// The whole file, with what fast-check itself keeps.
afterAll(() => {
  expect((process.memoryUsage.rss() - idleBytes) / MB).toBeLessThan(MAX_GROWTH_MB);
});

/** Runs what may refuse; anything but a Problem below 500 is a fault. */
function refusesOrReturns<T>(run: () => T): T | Problem {
  try {
    return run();
  } catch (error) {
    if (error instanceof Problem && error.status < 500) return error;
    throw error;
  }
}

describe('a webhook body', () => {
  const event = fc.record(
    {
      object_type: fc.oneof(fc.constantFrom('activity', 'athlete'), fc.anything()),
      object_id: fc.oneof(fc.bigInt({ min: 1n, max: 2n ** 63n - 1n }).map(String), fc.anything()),
      aspect_type: fc.oneof(fc.constantFrom('create', 'update', 'delete'), fc.anything()),
      owner_id: fc.oneof(fc.integer({ min: 1 }), fc.anything()),
      subscription_id: fc.oneof(fc.integer({ min: 1 }), fc.anything()),
      event_time: fc.oneof(fc.integer({ min: 1, max: 2 ** 31 }), fc.anything()),
      updates: fc.oneof(fc.dictionary(fc.string(), fc.oneof(fc.string(), fc.boolean())), fc.anything()),
    },
    { requiredKeys: [] },
  );

  it('is read as an event with ids of 64 bits and a time, or refused with a 4xx', () => {
    fc.assert(
      fc.property(event, (body) => {
        const read = refusesOrReturns(() => readWebhookEvent(body, false));
        if (read instanceof Problem) return;
        expect(read.ownerId).toMatch(/^[1-9]\d{0,18}$/);
        expect(Number.isNaN(new Date(read.eventTime).getTime())).toBe(false);
      }),
      RUNS,
    );
  });

  it('of any bytes is parsed or refused with a 4xx', () => {
    const bytes = fc.oneof(
      fc.uint8Array({ maxLength: 2000 }).map(Buffer.from),
      fc.json().map((json) => Buffer.from(json)),
    );
    fc.assert(
      fc.property(bytes, (body) => {
        refusesOrReturns(() => parseBody(body));
      }),
      RUNS,
    );
  });
});

describe('a signature', () => {
  const secret = 'the-webhook-secret';
  const sign = (time: number, body: Buffer, key = secret) =>
    `t=${time},v1=${createHmac('sha256', key).update(`${time}.`).update(body).digest('hex')}`;
  const check = (header: string, body: Buffer, nowS: number) =>
    refusesOrReturns(() => checkSignature({ headers: { 'x-strava-signature': header }, body }, secret, nowS * 1000));
  const bytes = fc.uint8Array({ maxLength: 200 }).map((array) => Buffer.from(array));
  const time = fc.integer({ min: 1_000_000, max: 2 ** 31 });

  it('is valid for its exact body, for 300 seconds', () => {
    fc.assert(
      fc.property(time, bytes, fc.integer({ min: -400, max: 400 }), fc.nat(), (at, body, lateS, place) => {
        expect(check(sign(at, body), body, at + lateS) instanceof Problem).toBe(Math.abs(lateS) > 300);
        const changed = Buffer.from(body);
        if (changed.length > 0) changed[place % changed.length] = (changed[place % changed.length] as number) ^ 1;
        else return;
        expect(check(sign(at, body), changed, at)).toBeInstanceOf(Problem);
      }),
      RUNS,
    );
  });

  it('of any text or another key is refused', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 300 }), bytes, time, (text, body, at) => {
        expect(check(text, body, at)).toBeInstanceOf(Problem);
        expect(check(`t=${at},v1=${text}`, body, at)).toBeInstanceOf(Problem);
        expect(check(sign(at, body, `x${text}`), body, at)).toBeInstanceOf(Problem);
      }),
      RUNS,
    );
  });
});

describe('a cookie header', () => {
  const name = 'activity_sync_session';
  const value = fc.stringMatching(/^[\w-]{1,50}$/);

  it('gives back the value that was set, whatever other cookies come along', () => {
    const others = fc.array(fc.string().filter((text) => !text.includes(name) && !text.includes(';')));
    fc.assert(
      fc.property(others, value, others, (before, set, after) => {
        expect(readCookie([...before, `${name}=${set}`, ...after].join('; '), name)).toBe(set);
      }),
      RUNS,
    );
  });

  it('of any text is read without a fault, and gives no part of another cookie’s value', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 1000 }), value, (text, other) => {
        readCookie(text, name);
        expect(readCookie(`x${name}=${other}; other=${name}=${other}`, name)).toBeUndefined();
      }),
      RUNS,
    );
  });
});

describe('a polyline', () => {
  it('of any route is read back as the reference reads it', () => {
    const degrees = (max: number) => fc.integer({ min: -max * 1e5, max: max * 1e5 }).map((value) => value / 1e5);
    fc.assert(
      fc.property(fc.array(fc.tuple(degrees(90), degrees(180)), { maxLength: 200 }), (route) => {
        const encoded = polyline.encode(route);
        const expected = polyline.decode(encoded);
        const decoded = decodeRoute(encoded);
        expect(decoded).toHaveLength(expected.length);
        for (const [n, [latitude, longitude]] of decoded.entries()) {
          expect(latitude).toBeCloseTo(expected[n]?.[0] as number, 9);
          expect(longitude).toBeCloseTo(expected[n]?.[1] as number, 9);
        }
      }),
      RUNS,
    );
  });

  it('of any text is a route of bounded length and places on Earth', () => {
    const text = fc.oneof(fc.string({ maxLength: 5000 }), fc.stringMatching(/^[?-~]{0,5000}$/));
    fc.assert(
      fc.property(text, fc.integer({ min: 1, max: 400 }), (part, times) => {
        const route = decodeRoute(part.repeat(times));
        expect(route.length).toBeLessThanOrEqual(20_002);
        const extent = measureExtent(projectRoute(route));
        if (extent) expect([extent.minY >= -1e-9, extent.maxY <= 1 + 1e-9]).toEqual([true, true]);
      }),
      { numRuns: 100 },
    );
  });
});

describe('a provider’s answer', () => {
  it('of any shape is read or refused, never a fault', () => {
    const detail = fc.record(
      {
        id: fc.oneof(fc.integer({ min: 1 }), fc.anything()),
        athlete: fc.oneof(fc.record({ id: fc.integer({ min: 1 }) }), fc.anything()),
        name: fc.oneof(fc.string({ unit: 'binary' }), fc.anything()),
        start_date: fc.oneof(
          fc.date({ noInvalidDate: true }).map((date) => date.toISOString()),
          fc.anything(),
        ),
        moving_time: fc.oneof(fc.double(), fc.anything()),
      },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(detail, (body) => {
        const result = activityDetailSchema.safeParse(body);
        if (!result.success) return;
        expect(result.data.name).not.toContain('\0');
        expect(Number.isNaN(new Date(result.data.start_date).getTime())).toBe(false);
      }),
      RUNS,
    );
  });

  it('of an error says at most 200 characters and contains no secret of the call, wherever the secret is', () => {
    const secret = fc.stringMatching(/^[a-f0-9]{40}$/);
    const words = fc.string({ maxLength: 400 });
    fc.assert(
      fc.property(words, secret, words, fc.integer({ min: 400, max: 599 }), (before, token, after, status) => {
        const body = JSON.stringify({ message: `${before}${token}${after}`, errors: [{ field: token }] });
        const answer = { status, body, retryAfter: undefined, date: undefined, now: 0 };
        const error = errorOfAnswer('GET /x', answer, [token]);
        expect(error).toBeInstanceOf(ProviderError);
        expect((error.providerMessage ?? '').length).toBeLessThanOrEqual(200);
        for (let from = 0; from <= 30; from += 1) expect(error.message).not.toContain(token.slice(from, from + 10));
      }),
      RUNS,
    );
  });
});
