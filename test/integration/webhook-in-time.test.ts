import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { keepLog } from '../support/kept-log.ts';
import { type Rig, startRig } from '../support/service.ts';

/** The provider gives up a delivery after so long. */
const PROVIDER_PATIENCE_MS = 2000;
const MANY = 100;

const { logger, lines } = keepLog();
let rig: Rig;
beforeAll(async () => {
  rig = await startRig({ logger, proxied: true, env: { SERVICE_ROLES: 'web' } });
});
afterAll(() => rig.close());
afterEach(() => {
  rig.proxy.release();
  // What was held is lost: the connections are of no use any more.
  rig.proxy.cut();
  rig.proxy.restore();
});

let lastId = 1000;
const newEvents = (many: number) =>
  Array.from({ length: many }, (_, n) => {
    lastId += 1;
    return {
      object_type: 'activity',
      object_id: lastId,
      aspect_type: 'create',
      owner_id: n + 1,
      subscription_id: 1,
      event_time: 1_700_000_000,
    };
  });
/** Posts events at once. @returns the answers, with the time that each took */
const postAll = (events: object[]) =>
  Promise.all(
    events.map(async (event) => {
      const startedAt = performance.now();
      const response = await rig.post(event);
      await response.arrayBuffer();
      const ms = performance.now() - startedAt;
      return { status: response.status, retryAfter: Number(response.headers.get('retry-after')), ms };
    }),
  );

describe('a database that swallows every packet', () => {
  it('has 100 deliveries at once answered 503 with Retry-After before the provider gives up', async () => {
    const events = newEvents(MANY);
    // The connections are open, and the client's as well.
    expect(new Set((await postAll(newEvents(MANY))).map(({ status }) => status))).toEqual(new Set([200]));
    rig.proxy.hold();
    const answers = await postAll(events);
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([503]));
    expect(answers.filter(({ retryAfter }) => !(retryAfter > 0))).toEqual([]);
    expect(Math.max(...answers.map(({ ms }) => ms))).toBeLessThan(PROVIDER_PATIENCE_MS);
    const told = lines
      .map((line) => JSON.parse(line))
      .filter(({ message }) => message.startsWith('webhook not stored'));
    expect(told).toEqual([expect.objectContaining({ level: 'warn', why: expect.any(String), unavailable: 1 })]);
    expect(lines.join()).not.toContain('request failed');
  });

  it('has lost nothing: delivered again, the events are accepted', async () => {
    const events = newEvents(MANY);
    rig.proxy.hold();
    await postAll(events);
    rig.proxy.release();
    rig.proxy.cut();
    rig.proxy.restore();
    let refused = events;
    for (let delivery = 0; refused.length > 0 && delivery < 10; delivery += 1) {
      const answers = await postAll(refused);
      refused = refused.filter((_, n) => answers[n]?.status !== 200);
    }
    expect(refused).toEqual([]);
    const [stored] = await rig.service.database.query<{ jobs: number }>(
      'SELECT count(*)::int AS jobs FROM activity_fetch_job WHERE activity_id = ANY ($1)',
      [events.map(({ object_id }) => object_id)],
    );
    expect(stored).toEqual({ jobs: MANY });
  });
});
