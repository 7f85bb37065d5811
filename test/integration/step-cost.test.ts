import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { systemClock } from '../../src/domain/clock.ts';
import { createBoss } from '../../src/infra/boss.ts';
import type { Database, Queryable } from '../../src/infra/database.ts';
import { createSilentLogger } from '../../src/infra/logger.ts';
import { createClaimRuns, type Run } from '../../src/queue/claim.ts';
import { acceptActivityEvents, requestFetches } from '../../src/queue/requests.ts';
import { createTestDatabase, openTestDatabase, type TestDatabase } from '../support/database.ts';

// Plans are made while there is little, and must do once there are millions that the server has not counted.
const SOME = 300;
const MANY = 2000;
const FEW = 40;

let testDatabase: TestDatabase;
let database: Database;

beforeEach(async () => {
  testDatabase = await createTestDatabase();
  database = openTestDatabase(testDatabase.url);
});
afterEach(async () => {
  await database.close();
  await testDatabase.drop();
});

const ids = (from: number, many: number) => Array.from({ length: many }, (_, n) => String(from + n));

describe('with thousands of athletes, open jobs and tombstones, few rows are read', () => {
  it.each([
    ['plans made while the tables are all but empty', 0],
    ['plans made while there are some hundred rows', SOME],
  ])('to accept events, to claim and to store: %s', async (_when, some) => {
    await add(1000, some);
    await database.query('ANALYZE');
    // By the connection that is looked at afterwards.
    expect((await runOnce(database, '1')).results).toEqual(['accepted', 'duplicate', 'stale', 'accepted', 'stored']);
    await add(1000 + some, MANY);
    // Autovacuum counts the queue within a minute; until then pg-boss's own claim may walk it.
    await database.query('ANALYZE pgboss.job');
    const { results, read } = await runOnce(database, '2');
    expect(results).toEqual(['accepted', 'duplicate', 'stale', 'accepted', 'stored']);
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
      tx,
      ids(first, many).map((id) => ({ activityId: id, athleteId: id, reason: 'polling' as const, force: false })),
    ),
  );
}

/**
 * Accepts an event, its repeat, an older one and a newer one, claims the job and stores the activity in one transaction.
 * @returns what came of each, and what it read, by table
 */
async function runOnce(database: Database, id: string) {
  const boss = createBoss({
    database,
    clock: systemClock,
    logger: createSilentLogger(),
    migrate: false,
    supervise: false,
  });
  return database.transaction(async (tx) => {
    const before = new Map((await readCounts(tx)).map(({ table, rows }) => [table, rows]));
    const inTx: Database = { ...database, query: tx.query, executeSql: tx.executeSql };
    const results: (string | undefined)[] = [];
    for (const at of ['14:13', '14:13', '14:00', '14:25']) {
      const event = { objectId: id, ownerId: id, aspect: 'create' as const, subscriptionId: '1', updates: {} };
      const [accepted] = await acceptActivityEvents(tx, [{ ...event, eventTime: `2026-09-21T${at}:00.000Z` }]);
      results.push(accepted?.result);
    }
    const [run] = (await createClaimRuns(inTx, boss)(1, 1000)).runs;
    const [stored] = await tx.query<{ results: string[] }>(
      'SELECT store_runs($1::text::jsonb, $2::text::json) AS results',
      [JSON.stringify([toStored(run as Run)]), '[{}]'],
    );
    results.push(...(stored?.results ?? []));
    const read = (await readCounts(tx)).map(({ table, rows }) => ({ table, rows: rows - (before.get(table) ?? 0) }));
    return { results, read };
  });
}

function toStored({ jobId, version, bossJobId, retryCount, startedAt, activityId, athleteId }: Run) {
  const times = { startedAt, startDate: '2026-09-21T06:00:00Z', cooldownMs: 0, answeredAgoMs: 0 };
  const figures = { distanceM: 1, movingTimeS: 1, elapsedTimeS: 1, elevationGainM: 1, private: false };
  return {
    n: 1,
    jobId,
    version,
    bossJobId,
    retryCount,
    activityId,
    athleteId,
    name: 'Run',
    sportType: 'Run',
    ...times,
    ...figures,
  };
}

/** Rows that the connection has read and not yet reported, of each table; a transaction's own are the difference. */
async function readCounts(tx: Queryable): Promise<{ table: string; rows: number }[]> {
  return tx.query(
    `SELECT relname AS table, (coalesce(idx_tup_fetch, 0) + seq_tup_read)::integer AS rows
     FROM pg_stat_xact_user_tables WHERE coalesce(idx_tup_fetch, 0) + seq_tup_read > 0`,
  );
}
