import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Webhook } from 'standardwebhooks';
import { RETRY_DELAYS_MS } from '../../src/flows/send-delivery.ts';
import { createSecretBox } from '../../src/infra/secret-box.ts';
import { recordChanges } from '../../src/store/changes.ts';
import { type Application, startApplication } from '../support/application.ts';
import { type ClockedRig, startClockedRig } from '../support/clocked-rig.ts';
import { keepLog } from '../support/kept-log.ts';
import { type Receiver, startReceiver } from '../support/receiver.ts';
import { until } from '../support/until.ts';

const { logger, lines } = keepLog();
let rig: ClockedRig;
let app: Application;
let receiver: Receiver;

beforeAll(async () => {
  rig = await startClockedRig({ OUTBOUND_ALLOW_PRIVATE: 'true', SERVICE_ROLES: 'web,delivery' }, { logger });
  app = await startApplication(rig);
});
afterAll(() => rig.close());
beforeEach(async () => {
  receiver = await startReceiver();
});
afterEach(async () => {
  for (const { id } of (await app.call('GET', '/api/v1/endpoints')).body.endpoints)
    await app.call('DELETE', `/api/v1/endpoints/${id}`);
  await receiver.close();
});

const createEndpoint = async (more: object = {}): Promise<{ id: string; secret: string }> => {
  const { status, body } = await app.call('POST', '/api/v1/endpoints', { url: `${receiver.url}/hook`, ...more });
  expect(status).toBe(201);
  return body;
};
const endpointNow = async (id: string) => (await app.call('GET', `/api/v1/endpoints/${id}`)).body;
const record = (athleteId: string, activityId: string) =>
  rig.service.database.transaction((tx) => recordChanges(tx, [{ type: 'activity.updated', athleteId, activityId }]));
const attemptsOf = async (id: string, query = '') =>
  (await app.call('GET', `/api/v1/endpoints/${id}/attempts${query}`)).body.attempts;
const untilAttempts = (id: string, count: number) =>
  until(async () => (await attemptsOf(id)).length >= count, `${count} attempts`);
/** Lets time pass, and has the worker look at the end of it: the database's times are finer by some microseconds. */
const advance = async (ms: number) => {
  await rig.advance(ms + 10);
  await rig.service.database.query(`SELECT pg_notify('activity_sync', 'delivery')`);
};
const told = () => receiver.calls.map(({ body }) => body.data.activityId);

describe('a delivery to an endpoint', () => {
  it('is signed by the Standard Webhooks specification, and carries the change', async () => {
    const { id, secret } = await createEndpoint();
    await record('7', '70');
    await receiver.untilCalls(1);
    const [call] = receiver.calls;
    const { headers, text, body } = call as NonNullable<typeof call>;
    const at = new Date(Number(headers['webhook-timestamp']) * 1000);
    const [change] = (await app.call('GET', '/api/v1/changes?athleteId=7')).body.changes;
    expect(headers['webhook-id']).toBe(change.id);
    expect(headers['webhook-signature']).toBe(new Webhook(secret).sign(change.id, at, text));
    const { endpointId: _, ...data } = change;
    expect(body).toEqual({ type: 'activity.updated', timestamp: change.at, data: { ...data, activity: null } });
    await untilAttempts(id, 1);
    expect(await attemptsOf(id)).toEqual([
      expect.objectContaining({ result: 'delivered', status: 200, changeId: change.id, activityId: '70', answer: '' }),
    ]);
  });

  it('is retried after each of the waits over three days with the same webhook-id, is then exhausted, and the next goes out', async () => {
    const { id } = await createEndpoint();
    receiver.answer = ({ body }) =>
      body.data.activityId === '80' ? { status: 500, body: 'x'.repeat(5000) } : { status: 204 };
    await record('8', '80');
    await record('8', '81');
    await record('9', '90');
    await until(() => told().includes('90'), 'the other athlete’s delivery');
    for (const [n, delayMs] of RETRY_DELAYS_MS.entries()) {
      await untilAttempts(id, n + 2);
      await advance(delayMs - 1000);
      expect(told().filter((activity) => activity === '80')).toHaveLength(n + 1);
      await advance(1000);
      await until(() => told().filter((activity) => activity === '80').length === n + 2, `attempt ${n + 2}`);
    }
    await until(() => told().includes('81'), 'the next delivery');
    expect(told()).toEqual(expect.arrayContaining(['80', '81', '90']));
    expect(told().at(-1)).toBe('81');
    const ids = receiver.calls
      .filter(({ body }) => body.data.activityId === '80')
      .map(({ headers }) => headers['webhook-id']);
    expect([ids.length, new Set(ids).size]).toEqual([10, 1]);
    await untilAttempts(id, 12);
    const [exhausted, ...more] = await attemptsOf(id, '?result=exhausted');
    expect([exhausted.status, exhausted.answer.length, more]).toEqual([500, 1024, []]);

    receiver.answer = () => ({ status: 200 });
    const resent = await app.call('POST', `/api/v1/endpoints/${id}/attempts/${exhausted.id}/resend`);
    expect([resent.status, resent.body]).toEqual([202, { changeId: ids[0] }]);
    await until(() => told().filter((activity) => activity === '80').length === 11, 'what was resent');
    expect(receiver.calls.at(-1)?.headers['webhook-id']).toBe(ids[0]);
  });

  it('keeps the order of each athlete while they fail in between', async () => {
    const { id } = await createEndpoint();
    let n = 0;
    receiver.answer = () => {
      n += 1;
      return { status: n % 3 === 0 ? 503 : 200 };
    };
    for (let activity = 1; activity <= 12; activity += 1)
      await record(activity % 2 === 0 ? '21' : '22', String(activity));
    const delivered = async () => (await attemptsOf(id, '?result=delivered&limit=200')).reverse();
    await until(async () => {
      await advance(301_000);
      return (await delivered()).length === 12;
    }, 'all deliveries');
    const of = async (athlete: string) =>
      (await delivered())
        .filter(({ athleteId }: { athleteId: string }) => athleteId === athlete)
        .map(({ activityId }: { activityId: string }) => activityId);
    expect([await of('21'), await of('22')]).toEqual([
      ['2', '4', '6', '8', '10', '12'],
      ['1', '3', '5', '7', '9', '11'],
    ]);
  });

  it('goes only to endpoints that want its type and athlete', async () => {
    await createEndpoint({ types: ['activity.deleted'], url: `${receiver.url}/deleted` });
    await createEndpoint({ athleteIds: ['31'], url: `${receiver.url}/athlete` });
    await record('32', '320');
    await record('31', '310');
    await receiver.untilCalls(1);
    expect(receiver.calls.map(({ path, body }) => [path, body.data.activityId])).toEqual([['/athlete', '310']]);
  });

  it('carries both signatures for a day after a rotation, and then only the new one', async () => {
    const { id, secret } = await createEndpoint();
    const rotated = (await app.call('POST', `/api/v1/endpoints/${id}/rotate`)).body;
    const signers = () => {
      const { headers, text } = receiver.calls.at(-1) as Receiver['calls'][number];
      const at = new Date(Number(headers['webhook-timestamp']) * 1000);
      const given = String(headers['webhook-signature']).split(' ');
      return [secret, rotated.secret].map((one) =>
        given.includes(new Webhook(one).sign(String(headers['webhook-id']), at, text)),
      );
    };
    await app.call('POST', `/api/v1/endpoints/${id}/test`);
    await receiver.untilCalls(1);
    await untilAttempts(id, 1);
    expect([receiver.calls[0]?.body.type, signers()]).toEqual(['endpoint.test', [true, true]]);
    await advance(24 * 3_600_000 + 1000);
    await app.call('POST', `/api/v1/endpoints/${id}/test`);
    await receiver.untilCalls(2);
    expect(signers()).toEqual([false, true]);
  });

  it('follows no redirect and reads no endless answer', async () => {
    const { id } = await createEndpoint();
    receiver.answer = () => ({ status: 302, headers: { location: `${receiver.url}/elsewhere` } });
    await app.call('POST', `/api/v1/endpoints/${id}/test`);
    await untilAttempts(id, 1);
    expect([(await attemptsOf(id))[0].status, receiver.calls.map(({ path }) => path)]).toEqual([302, ['/hook']]);
    receiver.answer = () => ({ status: 200, body: 'y'.repeat(10_000_000) });
    await advance(5000);
    await untilAttempts(id, 2);
    expect((await attemptsOf(id))[0]).toMatchObject({ result: 'delivered', answer: 'y'.repeat(1024) });
  });

  it('disables an endpoint that answers 410, announces it in the feed, and continues where it stopped once it is enabled', async () => {
    const { id } = await createEndpoint();
    receiver.answer = () => ({ status: 410 });
    await record('41', '1');
    await until(async () => (await endpointNow(id)).disabledReason === 'gone', 'the end');
    const [disabled] = (await app.call('GET', '/api/v1/changes?types=endpoint.disabled')).body.changes.slice(-1);
    expect(disabled).toMatchObject({ endpointId: id, athleteId: null });
    await record('41', '2');
    receiver.answer = () => ({ status: 200 });
    await app.call('PATCH', `/api/v1/endpoints/${id}`, { enabled: true });
    await receiver.untilCalls(3);
    expect(told()).toEqual(['1', '1', '2']);
    expect(await endpointNow(id)).toMatchObject({ disabledAt: null, disabledReason: null });
  });

  it('disables an endpoint whose deliveries have all failed for five days', async () => {
    const { id } = await createEndpoint();
    receiver.answer = () => ({ status: 500 });
    await record('51', '1');
    await untilAttempts(id, 1);
    await advance(4.9 * 86_400_000);
    await untilAttempts(id, 2);
    expect((await endpointNow(id)).disabledAt).toBeNull();
    await advance(0.2 * 86_400_000);
    await until(async () => (await endpointNow(id)).disabledReason === 'failing', 'the end');
  });

  it('waits, and does not count as a failure of the endpoint, while no configured key decrypts its secret', async () => {
    const { id, secret } = await createEndpoint();
    const { database } = rig.service;
    const rightKey = (await database.query<{ secret: string }>('SELECT secret FROM endpoint'))[0]?.secret;
    await database.query('UPDATE endpoint SET secret = $1', [createSecretBox(['ab'.repeat(32)]).seal(secret)]);
    lines.splice(0);
    for (const athleteId of ['55', '56', '57']) await record(athleteId, athleteId);
    const postponed = async () =>
      (await database.query(`SELECT FROM delivery_queue() WHERE waiting AND start_after > sync_now()`)).length;
    await until(async () => (await postponed()) === 3, 'the wait of the deliveries');
    expect([await attemptsOf(id), await endpointNow(id)]).toEqual([
      [],
      expect.objectContaining({ waiting: 3, failingSince: null, disabledAt: null }),
    ]);
    const errors = lines.map((line) => JSON.parse(line)).filter(({ level }) => level === 'error');
    expect(errors).toEqual([expect.objectContaining({ component: 'delivery', postponed: 1 })]);
    await database.query('UPDATE endpoint SET secret = $1', [rightKey]);
    await advance(60_000);
    await receiver.untilCalls(3);
    expect(told().sort()).toEqual(['55', '56', '57']);
  });

  it('is repeated for every change since a time, behind what waits', async () => {
    const { id } = await createEndpoint();
    await record('61', '1');
    await receiver.untilCalls(1);
    const since = new Date(rig.clock.now()).toISOString();
    await advance(1000);
    await record('61', '2');
    await untilAttempts(id, 2);
    const { status, body } = await app.call('POST', `/api/v1/endpoints/${id}/replay`, {
      since: new Date(Date.parse(since) + 500).toISOString(),
    });
    expect([status, body]).toEqual([202, { queued: 1 }]);
    await receiver.untilCalls(3);
    expect(told()).toEqual(['1', '2', '2']);
  });

  it('is repeated for at most 10,000 changes: beyond that the answer is 409, and nothing is queued', async () => {
    const since = new Date(rig.clock.now()).toISOString();
    const changes = Array.from({ length: 10_001 }, (_, n) => ({ athleteId: String(n + 1), activityId: String(n + 1) }));
    await rig.service.database.transaction((tx) =>
      recordChanges(
        tx,
        changes.map((change) => ({ type: 'activity.deleted', ...change })),
      ),
    );
    const { id } = await createEndpoint({ types: ['activity.deleted'] });
    await app.call('PATCH', `/api/v1/endpoints/${id}`, { enabled: false });
    const replay = () => app.call('POST', `/api/v1/endpoints/${id}/replay`, { since });
    const refused = await replay();
    expect([refused.status, refused.body.detail]).toEqual([409, expect.stringContaining('later since')]);
    expect((await endpointNow(id)).waiting).toBe(0);
    await rig.service.database.query(`DELETE FROM change WHERE type = 'activity.deleted' AND athlete_id = 1`);
    expect((await replay()).body).toEqual({ queued: 10_000 });
    expect((await replay()).body).toEqual({ queued: 0 });
    expect((await endpointNow(id)).waiting).toBe(10_000);
  });

  it('does not wait for an endpoint that hangs', async () => {
    await createEndpoint({ url: `${receiver.url}/hang` });
    await createEndpoint({ url: `${receiver.url}/works` });
    receiver.answer = ({ path }) => (path === '/hang' ? undefined : { status: 200 });
    for (let n = 1; n <= 5; n += 1) await record(String(70 + n), '1');
    await until(
      () => receiver.calls.filter(({ path }) => path === '/works').length === 5,
      'the other endpoint’s calls',
    );
    expect(receiver.calls.filter(({ path }) => path === '/hang')).toHaveLength(1);
  });
});
