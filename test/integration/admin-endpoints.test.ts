import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { ask } from '../support/admin.ts';
import { type Application, startApplication } from '../support/application.ts';
import { type Rig, startRig } from '../support/service.ts';

let rig: Rig;
let app: Application;
let endpointId: string;

beforeAll(async () => {
  rig = await startRig({ env: { OUTBOUND_ALLOW_PRIVATE: 'true', SERVICE_ROLES: 'web' } });
  app = await startApplication(rig);
});
afterAll(() => rig.close());
beforeEach(async () => {
  endpointId = (await app.call('POST', '/api/v1/endpoints', { url: 'http://127.0.0.1:1/hook' })).body.id;
});

const read = async () => (await ask(rig, 'GET', `/api/admin/endpoints/${endpointId}`)).body;
/** Writes deliveries down. @returns their ids */
const deliver = async (count: number, more: { state?: string; activityId?: string; changeId?: string } = {}) =>
  (
    await rig.service.database.query<{ id: string }>(
      `INSERT INTO delivery (endpoint_id, change_id, type, at, activity_id, athlete_id, state, created_at)
       SELECT $1, coalesce($2, gen_random_uuid()), 'activity.created', sync_now(), $3, 7, $4, sync_now() - interval '1 hour'
       FROM generate_series(1, $5) RETURNING id`,
      [endpointId, more.changeId ?? null, more.activityId ?? null, more.state ?? 'delivered', count],
    )
  ).map(({ id }) => id);
/** Writes attempts down: the n-th took n milliseconds. */
const attempt = async (deliveryId: string | undefined, count: number, result: string, hoursAgo = 0) =>
  rig.service.database.query(
    `INSERT INTO delivery_attempt (delivery_id, endpoint_id, duration_ms, status, error, result, at)
     SELECT $1, $2, n, CASE $4 WHEN 'delivered' THEN 200 END, CASE $4 WHEN 'delivered' THEN NULL ELSE 'reset' END, $4, sync_now() - $5 * interval '1 hour'
     FROM generate_series(1, $3) n`,
    [deliveryId, endpointId, count, result, hoursAgo],
  );

describe('an endpoint as an operator watches it', () => {
  it('has no figures before anything was sent', async () => {
    expect(await read()).toMatchObject({
      waiting: 0,
      waitingSince: null,
      recent: { attempts: 0, delivered: 0, p50Ms: null, p95Ms: null },
      lastFailure: null,
      formerUntil: null,
    });
  });

  it('has the share, the spread and the last failure of its own attempts of a day', async () => {
    const [delivery] = await deliver(1);
    await attempt(delivery, 5, 'exhausted', 25);
    await attempt(delivery, 100, 'delivered');
    const { recent, lastFailure } = await read();
    expect(recent).toEqual({ attempts: 100, delivered: 100, p50Ms: 50, p95Ms: 95 });
    expect(lastFailure).toMatchObject({ status: null, error: 'reset', result: 'exhausted' });
    expect(Date.now() - Date.parse(lastFailure.at)).toBeGreaterThan(24 * 3_600_000);
  });

  it('has how many deliveries wait, and since when the oldest does', async () => {
    await deliver(3, { state: 'waiting' });
    const { waiting, waitingSince } = await read();
    expect(waiting).toBe(3);
    expect(Math.round((Date.now() - Date.parse(waitingSince)) / 60_000)).toBe(60);
  });

  it('has figures of at most its newest thousand attempts, and counts no more than a thousand that wait', async () => {
    const [delivery] = await deliver(1);
    await attempt(delivery, 200, 'retry');
    await attempt(delivery, 1000, 'delivered');
    await deliver(1001, { state: 'waiting' });
    expect(await read()).toMatchObject({ recent: { attempts: 1000, delivered: 1000 }, waiting: 1000 });
  });

  it('is in a page of all, oldest first', async () => {
    const { endpoints, nextCursor } = (await ask(rig, 'GET', '/api/admin/endpoints?limit=1')).body;
    expect(endpoints).toHaveLength(1);
    expect(nextCursor).toBe(endpoints[0].id);
    const all = (await ask(rig, 'GET', `/api/admin/endpoints?limit=200&cursor=${nextCursor}`)).body;
    expect(all.endpoints.at(-1)).toEqual(await read());
    expect((await ask(rig, 'GET', '/api/admin/endpoints/999999')).status).toBe(404);
  });

  it('lists its failures apart from what was delivered', async () => {
    const [delivery] = await deliver(1);
    await attempt(delivery, 2, 'retry');
    await attempt(delivery, 3, 'delivered');
    const attemptsOf = async (result: string) =>
      (await app.call('GET', `/api/v1/endpoints/${endpointId}/attempts?result=${result}`)).body.attempts.length;
    expect([await attemptsOf('retry'), await attemptsOf('exhausted'), await attemptsOf('delivered')]).toEqual([
      2, 0, 3,
    ]);
  });
});

describe('the changes of an activity', () => {
  it('have the deliveries of each, newest first, also where it was sent twice or to no endpoint', async () => {
    const { database } = rig.service;
    await database.query(
      `SELECT record_changes('{activity.created,activity.thumbnail}'::text[], '{7,7}'::bigint[], '{70,70}'::bigint[])`,
    );
    const [created] = await database.query<{ id: string }>(
      `SELECT id FROM change WHERE activity_id = 70 AND type = 'activity.created'`,
    );
    const sent = { activityId: '70', ...(created && { changeId: created.id }) };
    const [first] = await deliver(1, sent);
    const [again] = await deliver(1, { ...sent, state: 'waiting' });
    const { changes } = (await ask(rig, 'GET', '/api/admin/activities/70/changes')).body;
    expect(changes).toMatchObject([
      { type: 'activity.thumbnail', deliveries: [] },
      {
        id: created?.id,
        type: 'activity.created',
        deliveries: [
          { id: again, endpointId, state: 'waiting', attempts: 0, url: 'http://127.0.0.1:1/hook' },
          { id: first, endpointId, state: 'delivered' },
        ],
      },
    ]);
    expect((await ask(rig, 'GET', '/api/admin/activities/71/changes')).body).toEqual({ changes: [] });
  });
});
