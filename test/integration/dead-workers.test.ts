import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { Database } from '../../src/infra/database.ts';
import { PROCESS_LOCK_CLASS } from '../../src/infra/presence.ts';
import { startApplication } from '../support/application.ts';
import { openTestDatabase } from '../support/database.ts';
import { startReceiver } from '../support/receiver.ts';
import { type Rig, startRig, testEnvironment } from '../support/service.ts';
import { freePort, type ServiceProcess, startServiceProcess } from '../support/service-process.ts';
import { untilThumbnail } from '../support/thumbnails.ts';
import { until } from '../support/until.ts';

const TEST_MS = 90_000;
const NOTICED_MS = 5000;
/** No process is declared dead within this time of the server's start. */
const GRACE_MS = 10_000;

let rig: Rig;
/** Another client of the same database. */
let other: Database;
const processes: ServiceProcess[] = [];

beforeEach(async () => {
  rig = await startRig({
    env: {
      SERVICE_ROLES: 'web',
      FETCH_TIMEOUT_MS: '60000',
      FETCH_POLL_INTERVAL_MS: '100',
      OUTBOUND_ALLOW_PRIVATE: 'true',
    },
  });
  rig.simulator.subscribe(`${rig.service.url}/api/provider/webhook`);
  other = openTestDatabase(rig.database.url, 3);
  const isUp = async () =>
    (
      await other.query(`SELECT WHERE clock_timestamp() - pg_postmaster_start_time() > $1 * interval '1 ms'`, [
        GRACE_MS,
      ])
    ).length === 1;
  await until(isUp, 'the end of the first seconds after the start of the server');
}, TEST_MS);
afterEach(async () => {
  for (const one of processes.splice(0)) await one.end('SIGKILL');
  await other.close();
  await rig.close();
});

async function startProcess(roles: string, more: Record<string, string> = {}): Promise<ServiceProcess> {
  const started = startServiceProcess(
    testEnvironment(rig.simulator.url, {
      DATABASE_URL: rig.database.url,
      PORT: String(await freePort()),
      SERVICE_ROLES: roles,
      PROVIDER_RATE_LIMIT_CAPACITY: '1000000',
      FETCH_TIMEOUT_MS: '60000',
      ...more,
    }),
  );
  processes.push(started);
  await started.ready();
  return started;
}

/** Delivers an event; resolves when the call has reached the provider, whose first answer is held back. */
async function startHeldCall(): Promise<{ id: string; answer: () => void }> {
  const athleteId = await rig.connectAthlete();
  const { id } = rig.simulator.addActivity(athleteId);
  const held = rig.simulator.faults.add({ kind: 'hold', match: { activityId: id }, times: 1 });
  await rig.simulator.deliver({ object_id: id, owner_id: athleteId });
  await held.held;
  return { id, answer: () => held.release() };
}

const isStored = ({ outcome }: { outcome: string | null }) => outcome === 'stored';

describe('a worker that is killed', () => {
  it(
    'during three jobs: they are pending again within 5 s, and done at once, as one attempt each',
    async () => {
      const killed = await startProcess('fetch');
      const ids: string[] = [];
      for (let n = 0; n < 3; n += 1) ids.push((await startHeldCall()).id);
      await rig.startReplica({ SERVICE_ROLES: 'fetch' });
      const killedAt = Date.now();
      await killed.end('SIGKILL');
      for (const id of ids) expect(await rig.untilJob(id, isStored)).toMatchObject({ attempts: 1 });

      const reclaims = await other.query<{ ended_at: Date; result: string; error: string }>(
        'SELECT a.ended_at, a.result, a.error FROM fetch_attempt a JOIN activity_fetch_job j ON j.id = a.job_id WHERE j.activity_id = ANY ($1) ORDER BY a.result DESC',
        [ids],
      );
      expect(reclaims.splice(3)).toEqual(ids.map(() => expect.objectContaining({ result: 'done', error: null })));
      expect(reclaims).toHaveLength(3);
      for (const { ended_at, result, error } of reclaims) {
        expect(ended_at.getTime() - killedAt).toBeLessThan(NOTICED_MS);
        expect({ result, error }).toEqual({ result: 'retry', error: expect.stringContaining('process died') });
      }
      expect(await other.query('SELECT FROM job_claim', [])).toEqual([]);
    },
    TEST_MS,
  );

  it(
    'while it draws a picture: another one draws it within seconds',
    async () => {
      await rig.startReplica({ SERVICE_ROLES: 'fetch' });
      const killed = await startProcess('thumbnail');
      const athleteId = await rig.connectAthlete();
      const isDrawing = async () => (await other.query(`SELECT FROM job_claim WHERE queue = 'thumbnail'`)).length === 1;
      // The route cannot be read while the table is locked.
      await other.transaction(async (tx) => {
        await tx.query('LOCK TABLE thumbnail IN ACCESS EXCLUSIVE MODE');
        const { id } = await rig.simulator.createActivityAndNotify(athleteId);
        await rig.untilJob(id, isStored);
        await until(isDrawing, 'the claim of the picture');
        await killed.end('SIGKILL');
        await rig.startReplica({ SERVICE_ROLES: 'thumbnail' });
        const retried = async () => (await rig.service.boss.findJobs('thumbnail', { key: id }))[0]?.retryCount === 1;
        await until(retried, 'the reclaim');
      });
      const [activity] = await other.query<{ activity_id: string }>('SELECT activity_id FROM activity');
      await untilThumbnail(rig, activity?.activity_id ?? '');
    },
    TEST_MS,
  );

  it(
    'while it calls the application: another one makes the call within 5 s',
    async () => {
      const receiver = await startReceiver();
      try {
        const app = await startApplication(rig);
        await app.call('POST', '/api/v1/endpoints', { url: receiver.url });
        const killed = await startProcess('delivery', { OUTBOUND_ALLOW_PRIVATE: 'true' });
        receiver.answer = () => undefined; // hangs
        const athleteId = await rig.connectAthlete();
        await receiver.untilCalls(1);
        await rig.startReplica({ SERVICE_ROLES: 'delivery' });
        receiver.answer = () => ({ status: 200 });
        const killedAt = Date.now();
        await killed.end('SIGKILL');
        await receiver.untilCalls(2);
        expect(Date.now() - killedAt).toBeLessThan(NOTICED_MS);
        const [first, second] = receiver.calls.map(({ headers, body }) => [headers['webhook-id'], body.data.athleteId]);
        expect([first, second?.[1]]).toEqual([second, athleteId]);
        const isDelivered = async () =>
          (await other.query(`SELECT FROM delivery WHERE state = 'delivered'`)).length === 1;
        await until(isDelivered, 'the settlement');
        expect(await other.query('SELECT FROM job_claim')).toEqual([]);
      } finally {
        await receiver.close();
      }
    },
    TEST_MS,
  );
});

describe('a database that drops every connection, as a restart does', () => {
  it(
    'makes no process count as dead: a run continues, and ends as its first attempt',
    async () => {
      await startProcess('fetch');
      const { id, answer } = await startHeldCall();
      await rig.startReplica({ SERVICE_ROLES: 'fetch' });
      const [before] = await other.query<{ at: Date; processes: number }>(
        'SELECT now() AS at, (SELECT count(*)::int FROM process) AS processes',
      );
      await other.query(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`,
      );
      // Every process has been back for longer than the time in which it declares no process dead.
      const areBack = async () =>
        (
          await other.query(
            `SELECT FROM process WHERE last_seen_at > $1::timestamptz + ($2 + 2000) * interval '1 ms'`,
            [before?.at, GRACE_MS],
          )
        ).length === before?.processes;
      await until(areBack, 'a heartbeat of each process', 40_000);
      answer();
      expect(await rig.untilJob(id, isStored)).toMatchObject({ attempts: 0 });
      expect(await other.query('SELECT result FROM fetch_attempt')).toEqual([{ result: 'done' }]);
    },
    TEST_MS,
  );
});

describe('a worker that has lost its sign of life', () => {
  it(
    'claims nothing, though it reaches the database, until it has registered again',
    async () => {
      const athleteId = await rig.connectAthlete();
      await rig.startReplica({ SERVICE_ROLES: 'fetch' });
      await rig.untilJob((await rig.simulator.createActivityAndNotify(athleteId)).id, isStored);
      const [worker] = await other.query<{ process_id: number }>(
        `SELECT process_id FROM process WHERE roles = '{fetch}'`,
      );
      const waiters = () =>
        other.query<{ pid: number }>(
          `SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objid = $1::integer::oid AND mode = 'ShareLock' AND NOT granted`,
          [worker?.process_id],
        );
      const id = await other.transaction(async (tx) => {
        const locked = tx.query('SELECT pg_advisory_xact_lock($1, $2)', [PROCESS_LOCK_CLASS, worker?.process_id]);
        await other.query(
          `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND objid = $1::integer::oid AND granted`,
          [worker?.process_id],
        );
        await locked;
        await until(async () => (await waiters()).length === 1, 'the attempt to register');
        const [first] = await waiters();
        const activity = await rig.simulator.createActivityAndNotify(athleteId);
        // After many polls of the worker it gives up, and tries again.
        const triesAgain = async () => (await waiters()).some(({ pid }) => pid !== first?.pid);
        await until(triesAgain, 'the next attempt to register');
        expect(await rig.untilJob(activity.id, () => true)).toMatchObject({ status: 'pending' });
        return activity.id;
      });
      await rig.untilJob(id, isStored);
    },
    TEST_MS,
  );
});
