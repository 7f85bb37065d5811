import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { systemClock } from '../../src/domain/clock.ts';
import { createBoss } from '../../src/infra/boss.ts';
import { type Database, openDatabase, type Queryable } from '../../src/infra/database.ts';
import { createSilentLogger } from '../../src/infra/logger.ts';
import { createClaimRuns, type Run } from '../../src/queue/claim.ts';
import { acceptActivityEvents, requestFetches } from '../../src/queue/requests.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';

// Many of everything, on a server that has counted none of it: plans made now must do once there are millions.
const MANY = 2000;
const FEW = 40;

let testDatabase: TestDatabase;
let database: Database;

beforeAll(async () => {
  testDatabase = await createTestDatabase();
  database = openDatabase({
    connectionString: testDatabase.url,
    maxConnections: 2,
    applicationName: 'test',
    onError: () => undefined,
  });
});
afterAll(async () => {
  await database.close();
  await testDatabase.drop();
});

const ids = (from: number) => Array.from({ length: MANY }, (_, n) => String(from + n));

describe('with thousands of athletes, open jobs and tombstones, few rows are read', () => {
  it('to accept a batch of events, to claim and to store', async () => {
    // The plans are made while the tables are all but empty, by the connection that is looked at afterwards.
    const first = await runOnce(database, '1');
    expect(first.result).toBe('stored');
    await database.query(
      'INSERT INTO activity_tombstone (activity_id, athlete_id) SELECT n::bigint, 7 FROM unnest($1::text[]) n',
      [ids(500_000)],
    );
    await database.transaction((tx) =>
      requestFetches(
        tx,
        ids(1000).map((id) => ({ activityId: id, athleteId: id, reason: 'polling' as const, force: false })),
      ),
    );
    // Autovacuum counts the queue within a minute; until then pg-boss's own claim may walk it.
    await database.query('ANALYZE pgboss.job');
    const { result, read } = await runOnce(database, '2');
    expect(result).toBe('stored');
    expect(read.length).toBeGreaterThan(4);
    expect(read.filter(({ rows }) => rows > FEW)).toEqual([]);
  });
});

/** Accepts an event, claims its job and stores the activity in one transaction. @returns what that read, by table */
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
    await acceptActivityEvents(tx, inTx, [
      {
        objectId: id,
        ownerId: id,
        aspect: 'create',
        eventTime: '2026-09-21T14:13:20.000Z',
        subscriptionId: '1',
        updates: {},
      },
    ]);
    const [run] = (await createClaimRuns(inTx, boss)(1, 1000)).runs;
    const [stored] = await tx.query<{ result: string }>('SELECT * FROM store_runs($1::text::jsonb, $2::text::jsonb)', [
      JSON.stringify([toStored(run as Run)]),
      '[{}]',
    ]);
    const read = (await readCounts(tx)).map(({ table, rows }) => ({ table, rows: rows - (before.get(table) ?? 0) }));
    return { result: stored?.result, read };
  });
}

function toStored({ jobId, version, bossJobId, retryCount, startedAt, activityId, athleteId }: Run) {
  const times = { startedAt, startDate: '2026-09-21T06:00:00Z', cooldownMs: 0, answeredAgoMs: 0 };
  const figures = { distanceM: 1, movingTimeS: 1, elapsedTimeS: 1, elevationGainM: 1, private: false };
  return {
    n: 0,
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
