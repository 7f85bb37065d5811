import { afterAll, beforeAll, expect, it } from '@jest/globals';
import type { Database, Queryable } from '../../src/infra/database.ts';
import { listApplicationActivities } from '../../src/store/application-reads.ts';
import { createTestDatabase, openTestDatabase, type TestDatabase } from '../support/database.ts';

const ATHLETES = 1000;
const ACTIVITIES = 100_000;

let testDatabase: TestDatabase;
let database: Database;
beforeAll(async () => {
  testDatabase = await createTestDatabase();
  database = openTestDatabase(testDatabase.url);
  await database.query('ALTER TABLE activity DISABLE TRIGGER USER');
  await database.query(
    `INSERT INTO athlete (athlete_id, access_token, refresh_token, token_expires_at, scope)
     SELECT n, '', '', now(), '' FROM generate_series(1, $1::int) n`,
    [ATHLETES],
  );
  await database.query(
    `INSERT INTO activity (activity_id, athlete_id, name, sport_type, start_date, detail, fetched_at)
     SELECT n, 1 + n % $1::int, '', 'Ride', now() - n * interval '1 hour', '{}', now() - n * interval '1 minute'
     FROM generate_series(1, $2::int) n`,
    [ATHLETES, ACTIVITIES],
  );
  await database.query('ANALYZE athlete, activity');
}, 60_000);
afterAll(async () => {
  await database.close();
  await testDatabase.drop();
});

it('a list of what was stored since a time reads only that', async () => {
  const plans: string[] = [];
  const explaining = {
    query: async (sql: string, values: unknown[]) => {
      plans.push(JSON.stringify(await database.query(`EXPLAIN ${sql}`, values)));
      return database.query(sql, values);
    },
  } as Queryable;
  const updatedAfter = new Date(Date.now() - 10.5 * 60_000);
  expect(await listApplicationActivities(explaining, { updatedAfter, limit: 50 })).toHaveLength(10);
  expect(plans.join()).toContain('Index Scan using activity_fetched');
  expect(plans.join()).not.toContain('Seq Scan on activity');
});
