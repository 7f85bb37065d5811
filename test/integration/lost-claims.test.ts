import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import type { Database } from '../../src/infra/database.ts';
import { openTestDatabase } from '../support/database.ts';
import { type Rig, startRig } from '../support/service.ts';
import { until } from '../support/until.ts';

let rig: Rig;
/** A way to the database that the proxy does not cut. */
let database: Database;

beforeAll(async () => {
  rig = await startRig({
    proxied: true,
    env: { SERVICE_ROLES: 'web,fetch', FETCH_CONCURRENCY: '1', FETCH_TIMEOUT_MS: '60000' },
  });
  rig.simulator.subscribe(`${rig.service.url}/api/provider/webhook`);
  database = openTestDatabase(rig.database.url, 2);
});
afterAll(async () => {
  await database.close();
  await rig.close();
});
afterEach(() => {
  rig.proxy.release();
  rig.proxy.restore();
});

/** Adds an activity and delivers its event. */
async function deliver(athleteId: string): Promise<string> {
  const { id } = rig.simulator.addActivity(athleteId);
  await rig.simulator.deliver({ object_id: id, owner_id: athleteId });
  return id;
}

/** Lets the next claim commit and the answer to its COMMIT get lost, and cuts every connection then. */
async function loseAnswer(cause: () => Promise<unknown>, hasCommitted: () => Promise<boolean>): Promise<void> {
  await database.transaction(async (tx) => {
    await tx.query('SELECT lock_budget()');
    await cause();
    await until(
      async () => (await database.query(`SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted`)).length > 0,
      'a claim that waits for the budget',
    );
    rig.proxy.holdFrom('COMMIT', () => undefined, 'answers');
  });
  await until(hasCommitted, 'the claim');
  rig.proxy.cut();
  rig.proxy.release();
  rig.proxy.restore();
}

async function jobOf(id: string) {
  const [job] = await database.query<{ status: string; outcome: string | null; attempts: number }>(
    `SELECT v.status, j.outcome, v.attempts FROM "ActivityFetchJob" v JOIN activity_fetch_job j USING (id) WHERE j.activity_id = $1`,
    [id],
  );
  return job;
}

const isWorking = async (id: string) => (await jobOf(id))?.status === 'working';
const callsFor = (id: string) => rig.simulator.calls.filter((call) => call.activityId === id);
const putBacks = (id: string) =>
  database.query(
    `SELECT a.error FROM fetch_attempt a JOIN activity_fetch_job j ON j.id = a.job_id WHERE j.activity_id = $1 AND a.result = 'put_back'`,
    [id],
  );

const STORED = { status: 'done', outcome: 'stored', attempts: 0 };
const WHY = 'The database connection broke before the worker received its claim; the job was released.';

describe('a claim whose answer is lost with the connection', () => {
  it('is undone as soon as the database is back: the job is fetched within seconds, as its first attempt', async () => {
    const athleteId = await rig.connectAthlete();
    let id = '';
    await loseAnswer(
      async () => {
        id = await deliver(athleteId);
      },
      () => isWorking(id),
    );
    await until(async () => (await jobOf(id))?.status === 'done', 'the fetch');
    expect(await jobOf(id)).toEqual(STORED);
    expect(await putBacks(id)).toEqual([{ error: WHY }]);
    expect(callsFor(id)).toHaveLength(1);
  });
});

describe('a claim whose connection is lost before it commits', () => {
  it('has claimed nothing: the job is fetched as soon as the database is back', async () => {
    const athleteId = await rig.connectAthlete();
    let id = '';
    const waits = async () =>
      (
        await database.query(
          `SELECT FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%begin_run%' AND wait_event_type = 'Lock'`,
        )
      ).length > 0;
    await database.transaction(async (tx) => {
      await tx.query('SELECT FROM rate_budget FOR UPDATE');
      id = await deliver(athleteId);
      await until(waits, 'a claim that waits');
      rig.proxy.cut();
      rig.proxy.restore();
    });
    await until(async () => (await jobOf(id))?.status === 'done', 'the fetch');
    expect(await jobOf(id)).toEqual(STORED);
    expect(await putBacks(id)).toEqual([]);
    expect(callsFor(id)).toHaveLength(1);
  });
});
