import { describe, expect, it } from '@jest/globals';
import { Problem } from '../../src/http/problem.ts';
import { readWebhookEvent } from '../../src/http/webhook-event.ts';

const EVENT = {
  object_type: 'activity',
  object_id: 1360128428,
  aspect_type: 'update',
  owner_id: '134815',
  subscription_id: 120475,
  event_time: 1516126040,
  updates: { title: 'Messy', private: 'true' },
};
const keys = (count: number) => Array.from({ length: count }, (_unused, n) => `key${n}`);
const errorsOf = (body: unknown) => {
  try {
    readWebhookEvent(body, false);
  } catch (error) {
    expect(error).toBeInstanceOf(Problem);
    return (error as Problem).errors.map(({ field }) => field);
  }
  return [];
};

const messagesOf = (body: unknown) => {
  try {
    readWebhookEvent(body, false);
  } catch (error) {
    return Object.fromEntries((error as Problem).errors.map(({ field, message }) => [field, message]));
  }
  return {};
};

describe('the body of a delivery', () => {
  it.each<[string, object]>([
    ['missing', { owner_id: undefined, event_time: undefined }],
    ['of another type', { owner_id: null, event_time: true }],
    ['out of range', { owner_id: 0, event_time: 1.5 }],
  ])('says what an id and a time must be where they are %s', (_case, fields) => {
    expect(messagesOf({ ...EVENT, ...fields })).toEqual({
      'body.owner_id': 'must be a whole number from 1 to 9223372036854775807',
      'body.event_time': 'must be whole seconds since the epoch, from 1 to 32503680000',
    });
  });

  it('of an activity becomes an event with ids as text and an exact time', () => {
    expect(readWebhookEvent(EVENT, false)).toEqual({
      signed: false,
      objectType: 'activity',
      objectId: '1360128428',
      ownerId: '134815',
      aspect: 'update',
      eventTime: new Date('2018-01-16T18:07:20.000Z'),
      subscriptionId: '120475',
      updates: { title: 'Messy', private: 'true' },
    });
  });

  it('takes booleans where the provider sends them, a time as text, and no updates at all', () => {
    expect(readWebhookEvent({ ...EVENT, updates: { private: true } }, false)).toMatchObject({
      updates: { private: true },
    });
    expect(readWebhookEvent({ ...EVENT, event_time: '1516126040' }, false)).toMatchObject({
      eventTime: new Date('2018-01-16T18:07:20.000Z'),
    });
    const { updates, ...rest } = EVENT;
    expect(updates).toBeDefined();
    expect(readWebhookEvent(rest, false)).toMatchObject({ updates: {} });
  });

  it.each([
    ['"false"', 'false', true],
    ['false', false, true],
    ['"true"', 'true', false],
    ['missing', undefined, false],
    ['null', null, false],
    ['0', 0, false],
  ])('of an athlete withdraws access when authorized is "false": %s', (_case, authorized, deauthorized) => {
    const updates = authorized === undefined ? {} : { authorized };
    expect(readWebhookEvent({ ...EVENT, object_type: 'athlete', updates }, false)).toMatchObject({
      objectType: 'athlete',
      ownerId: '134815',
      deauthorized,
      eventTime: new Date(1516126040 * 1000),
    });
  });

  it('is refused with every bad field named, up to twenty of them', () => {
    expect(errorsOf({ ...EVENT, object_id: 0, aspect_type: 'x', event_time: 1.5 })).toEqual([
      'body.object_id',
      'body.aspect_type',
      'body.event_time',
    ]);
    expect(errorsOf({ ...EVENT, updates: { title: ['x'] } })).toEqual(['body.updates.title']);
    expect(errorsOf({ ...EVENT, updates: Object.fromEntries(keys(50).map((key) => [key, []])) })).toEqual(
      keys(20).map((key) => `body.updates.${key}`),
    );
    for (const body of [null, undefined, 'text', 5, [], true]) expect(errorsOf(body)).toEqual(['body']);
  });

  it('may have fifty updates; with more, none of them is checked', () => {
    const updatesOf = (count: number, value: unknown) => Object.fromEntries(keys(count).map((key) => [key, value]));
    expect(readWebhookEvent({ ...EVENT, updates: updatesOf(50, 'x') }, false)).toMatchObject({
      updates: updatesOf(50, 'x'),
    });
    let looks = 0;
    const watched = (of: object) =>
      new Proxy(of, {
        get: (target, key) => {
          looks += 1;
          return Reflect.get(target, key);
        },
      });
    expect(errorsOf({ ...EVENT, updates: watched(updatesOf(51, [])) })).toEqual(['body.updates']);
    expect(looks).toBe(0);
    expect(errorsOf({ ...EVENT, updates: watched(updatesOf(50, [])) })).toHaveLength(20);
    expect(looks).toBeGreaterThan(0);
  });
});
