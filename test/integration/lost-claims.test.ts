import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import type { Database } from '../../src/infra/database.ts';
import { openTestDatabase } from '../support/database.ts';
import { type Rig, startRig } from '../support/service.ts';
import { until } from '../support/until.ts';

let rig: Rig;
/** A way to the database that the proxy does not cut. */
let database: Database;

beforeAll(async () => {
  rig = await startRig({ proxied: true, env: { FETCH_CONCURRENCY: '1', FETCH_TIMEOUT_MS: '60000' } });
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

/** Lets the next claim commit and its answer get lost, and cuts every connection then. */
async function loseAnswer(cause: () => Promise<unknown>, hasCommitted: () => Promise<boolean>): Promise<void> {
  await database.transaction(async (tx) => {
    await tx.query('SELECT lock_budget()');
    await cause();
    await until(
      async () => (await database.query(`SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted`)).length > 0,
      'a claim that waits for the budget',
    );
    rig.proxy.holdAnswers();
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
const WHY = 'The connection to the database broke before the worker heard of its claim; the job was put back.';

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

  it('is undone too when it commits after the database is back: a lock had kept its statement waiting', async () => {
    const athleteId = await rig.connectAthlete();
    let id = '';
    const waits = (query: string) => async () =>
      (
        await database.query(
          `SELECT FROM pg_stat_activity WHERE datname = current_database() AND query LIKE $1 AND wait_event_type = 'Lock'`,
          [`%${query}%`],
        )
      ).length > 0;
    await database.transaction(async (tx) => {
      await tx.query('SELECT FROM rate_budget FOR UPDATE');
      id = await deliver(athleteId);
      await until(waits('claim_runs'), 'a claim that waits');
      rig.proxy.cut();
      rig.proxy.restore();
      await until(waits('lost_runs'), 'a look for lost claims');
    });
    await until(async () => (await jobOf(id))?.status === 'done', 'the fetch');
    expect(await jobOf(id)).toEqual(STORED);
    expect(await putBacks(id)).toEqual([{ error: WHY }]);
    expect(callsFor(id)).toHaveLength(1);
  });

  it('is undone too where it was made together with the end of another run', async () => {
    const call = rig.simulator.faults.add({ kind: 'hold', match: { path: /activities/ }, times: 1 });
    const first = await deliver(await rig.connectAthlete());
    await call.held;
    const second = await deliver(await rig.connectAthlete());
    await loseAnswer(
      async () => call.release(),
      () => isWorking(second),
    );
    await until(async () => (await jobOf(second))?.status === 'done', 'the fetch');
    expect([await jobOf(first), await jobOf(second)]).toEqual([STORED, STORED]);
    expect(await putBacks(first)).toEqual([]);
    expect(await putBacks(second)).toEqual([{ error: WHY }]);
    expect([callsFor(first), callsFor(second)]).toMatchObject([{ length: 1 }, { length: 1 }]);
  });
});
