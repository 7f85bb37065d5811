import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { Database } from '../../src/infra/database.ts';
import { createSilentLogger } from '../../src/infra/logger.ts';
import { migrate } from '../../src/infra/migrate.ts';
import { MigrationError } from '../../src/infra/schema/migration-error.ts';
import { createTestDatabase, openTestDatabase, type TestDatabase } from '../support/database.ts';
import { restoreDatabase01 } from '../support/database-0.1.ts';
import { describeSchema } from '../support/describe-schema.ts';

let old: TestDatabase;
let database: Database;
beforeEach(async () => {
  old = await createTestDatabase({ template: false });
  await restoreDatabase01(old.url);
  database = openTestDatabase(old.url);
});
afterEach(async () => {
  await database.close();
  await old.drop();
});
const run = () => migrate({ connectionString: old.url, logger: createSilentLogger() });

describe('a database of release 0.1', () => {
  it('has the schema of a new database after one migration, however many processes run it', async () => {
    await Promise.all([run(), run(), run()]);
    const fresh = await createTestDatabase();
    const freshDatabase = openTestDatabase(fresh.url);
    expect(await describeSchema(database)).toBe(await describeSchema(freshDatabase));
    const names = 'SELECT name, checksum, compatible FROM schema_migration ORDER BY name';
    expect(await database.query(names)).toEqual(await freshDatabase.query(names));
    await freshDatabase.close();
    await fresh.drop();
  });

  it('keeps its athletes, activities, thumbnails and jobs', async () => {
    await run();
    const [kept] = await database.query(
      `SELECT (SELECT count(*)::int FROM athlete) AS athletes, (SELECT count(*)::int FROM activity) AS activities,
         (SELECT count(*)::int FROM thumbnail) AS thumbnails, (SELECT count(*)::int FROM webhook_event) AS events`,
    );
    expect(kept).toEqual({ athletes: 2, activities: 1, thumbnails: 1, events: 3 });
    const jobs = await database.query('SELECT status FROM "ActivityFetchJob" ORDER BY id');
    expect(jobs).toEqual([{ status: 'done' }, { status: 'failed' }, { status: 'pending' }]);
  });

  it('with only some of its migrations is refused unchanged', async () => {
    await database.query(`DELETE FROM schema_migration WHERE name = '0009-one-round-trip.sql'`);
    const before = await describeSchema(database);
    await expect(run()).rejects.toThrow(MigrationError);
    await expect(run()).rejects.toThrow(/8 of the 9 migrations of release 0\.1.*npm run migrate/s);
    expect(await describeSchema(database)).toBe(before);
  });
});
