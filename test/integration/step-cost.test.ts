import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { PgBoss } from 'pg-boss';
import type { Activity } from '../../src/domain/activity.ts';
import { systemClock } from '../../src/domain/clock.ts';
import type { Aspect } from '../../src/domain/job.ts';
import { createBoss } from '../../src/infra/boss.ts';
import type { Database, Queryable } from '../../src/infra/database.ts';
import { createSilentLogger } from '../../src/infra/logger.ts';
import { acceptEvents } from '../../src/queue/accept.ts';
import { claimRun, type Run } from '../../src/queue/claim.ts';
import { requestFetches } from '../../src/queue/requests.ts';
import { writeSettlements } from '../../src/queue/write-settlements.ts';
import { createTestDatabase, openTestDatabase, type TestDatabase } from '../support/database.ts';

// Plans are made while there is little, and must do once there are millions that the server has not counted.
const SOME = 300;
const MANY = 2000;
const FEW = 60;

let testDatabase: TestDatabase;
let database: Database;
let boss: PgBoss;

beforeEach(async () => {
  testDatabase = await createTestDatabase();
  database = openTestDatabase(testDatabase.url);
  boss = createBoss({ database, clock: systemClock, logger: createSilentLogger(), migrate: false, supervise: false });
  await boss.start(); // reads its queues, for which a transaction on the only connection would leave it none
});
afterEach(async () => {
  await boss.stop({ graceful: false, close: false });
  await database.close();
  await testDatabase.drop();
});

const ids = (from: number, many: number) => Array.from({ length: many }, (_, n) => String(from + n));

describe('with thousands of athletes, open jobs and tombstones, few rows are read', () => {
  it.each([
    ['plans made while the tables are all but empty', 0],
    ['plans made while there are some hundred rows', SOME],
  ])('to accept events, to claim and to settle: %s', async (_when, some) => {
    await add(1000, some);
    await database.query('ANALYZE');
    // By the connection that is looked at afterwards; a statement's plan is kept from its sixth use on.
    for (const id of ids(1, 6)) expect((await runOnce(id)).results).toEqual(RESULTS);
    await add(1000 + some, MANY);
    // Autovacuum counts the queue within a minute; until then pg-boss's own claim may walk it.
    await database.query('ANALYZE');
    const { results, read } = await runOnce('7');
    expect(results).toEqual(RESULTS);
    expect(read.length).toBeGreaterThan(4);
    expect(read.filter(({ rows }) => rows > FEW)).toEqual([]);
  });
});

/** Adds tombstones, and open jobs of as many athletes. */
async function add(first: number, many: number): Promise<void> {
  await database.query(
    'INSERT INTO activity_tombstone (activity_id, athlete_id) SELECT n::bigint, 7 FROM unnest($1::text[]) n',
    [ids(first + 500_000, many)],
  );
  if (many === 0) return;
  await database.transaction((tx) =>
    requestFetches(
      boss,
      tx,
      ids(first, many).map((id) => ({ activityId: id, athleteId: id, reason: 'polling' as const, force: false })),
    ),
  );
}

const RESULTS = ['accepted', 'duplicate', 'stale', 'accepted', 'stored'];

/**
 * Accepts an event, its repeat, an older one and a newer one, claims the job and stores the activity in one transaction.
 * @returns the result of each, and how many rows were read, by table
 */
async function runOnce(id: string) {
  return database.transaction(async (tx) => {
    const before = new Map((await readCounts(tx)).map(({ table, rows }) => [table, rows]));
    const inTx: Database = { ...database, ...tx, transaction: (work) => work(tx) };
    const results: string[] = [];
    for (const at of ['14:13', '14:13', '14:00', '14:25']) {
      const eventTime = new Date(`2025-09-21T${at}:00.000Z`);
      const event = { objectId: id, ownerId: id, aspect: 'create' as Aspect, eventTime, subscriptionId: '1' };
      const [accepted] = await acceptEvents(boss, tx, [{ ...event, updates: {}, signed: false }]);
      results.push(accepted?.result ?? 'nothing');
    }
    const { run } = await claimRun(inTx, boss, { processId: 1, holdMs: 1000 });
    results.push(...(await writeSettlements({ boss, cooldownMs: 0, backoffMs: () => 0 }, tx, [toStored(run as Run)])));
    const read = (await readCounts(tx)).map(({ table, rows }) => ({ table, rows: rows - (before.get(table) ?? 0) }));
    return { results, read };
  });
}

function toStored(run: Run): Parameters<typeof writeSettlements>[2][number] {
  const activity: Activity = {
    activityId: run.activityId,
    athleteId: run.athleteId,
    name: 'Run',
    sportType: 'Run',
    startDate: '2025-09-21T06:00:00Z',
    timezone: undefined,
    distanceM: 1,
    movingTimeS: 1,
    elapsedTimeS: 1,
    elevationGainM: 1,
    private: false,
  };
  return { run, settlement: { kind: 'stored', outcome: 'stored', activity, detail: '{}', lastCall: 'none' } };
}

/** Rows that the connection has read and not yet reported, of each table; a transaction's own are the difference. */
async function readCounts(tx: Queryable): Promise<{ table: string; rows: number }[]> {
  return tx.query(
    `SELECT relname AS table, (coalesce(idx_tup_fetch, 0) + seq_tup_read)::integer AS rows
     FROM pg_stat_xact_user_tables WHERE coalesce(idx_tup_fetch, 0) + seq_tup_read > 0`,
  );
}
