import { readFile } from 'node:fs/promises';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { ASPECTS, OUTCOMES } from '../../src/domain/job.ts';
import { BOSS_SCHEMA_VERSION } from '../../src/infra/boss.ts';
import type { Database } from '../../src/infra/database.ts';
import { createSilentLogger } from '../../src/infra/logger.ts';
import { migrate } from '../../src/infra/migrate.ts';
import { findSchemaProblem } from '../../src/infra/schema/check-schema.ts';
import { MigrationError } from '../../src/infra/schema/migration-error.ts';
import { readMigrations, THIS_RELEASE } from '../../src/infra/schema/release.ts';
import { createTestDatabase, openTestDatabase, type TestDatabase } from '../support/database.ts';
import { describeSchema } from '../support/describe-schema.ts';
import { keepLog } from '../support/kept-log.ts';
import { makeRelease } from '../support/next-release.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';
import { until } from '../support/until.ts';

const BASELINE_BOSS_SCHEMA_VERSION = 43;

let empty: TestDatabase;
let database: Database;
beforeEach(async () => {
  empty = await createTestDatabase({ template: false });
  database = openTestDatabase(empty.url, 2);
});
afterEach(async () => {
  await database.close();
  await empty.drop();
});
const logger = createSilentLogger();
const run = () => migrate({ connectionString: empty.url, logger });
const applied = async () =>
  (await database.query<{ name: string }>('SELECT name FROM schema_migration ORDER BY name')).map(({ name }) => name);

const migrationNames = async () => (await readMigrations(THIS_RELEASE)).map(({ name }) => name);

describe('migrate', () => {
  it('brings an empty database to this version, once, however many processes start at the same time', async () => {
    await Promise.all(Array.from({ length: 20 }, run));
    expect(await applied()).toEqual(await migrationNames());
    const [queues] = await database.query(
      `SELECT array_agg(name ORDER BY name) AS names FROM pgboss.queue WHERE name NOT LIKE '\\_\\_%'`,
    );
    expect(queues).toEqual({ names: expect.arrayContaining(['activity-fetch', 'thumbnail']) });
  });

  it('creates the schema that sql/schema.sql shows (npm run schema:dump writes it)', async () => {
    await run();
    const committed = await readFile(new URL('../../sql/schema.sql', import.meta.url), 'utf8');
    expect(await describeSchema(database)).toBe(committed);
  });

  it('knows the same words as the service', async () => {
    await run();
    const [words] = await database.query(
      'SELECT enum_range(NULL::event_aspect)::text[] AS aspects, enum_range(NULL::fetch_outcome)::text[] AS outcomes',
    );
    expect(words).toEqual({ aspects: ASPECTS, outcomes: OUTCOMES });
  });

  it('changes nothing when it is run again', async () => {
    await run();
    const before = await describeSchema(database);
    const times = await database.query('SELECT * FROM schema_migration ORDER BY name');
    await run();
    expect(await describeSchema(database)).toBe(before);
    expect(await database.query('SELECT * FROM schema_migration ORDER BY name')).toEqual(times);
  });

  it('refuses a database of a newer release that is not compatible, and changes nothing in it', async () => {
    await run();
    await database.query(`INSERT INTO schema_migration (name) VALUES ('9999-from-the-future.sql')`);
    await database.query(
      `DELETE FROM schema_migration WHERE name = (SELECT max(name) FROM schema_migration WHERE name < '9')`,
    );
    const before = await applied();
    const refusal = run();
    await expect(refusal).rejects.toThrow(MigrationError);
    await expect(refusal).rejects.toThrow(/newer release.*9999-from-the-future/);
    expect(await applied()).toEqual(before);
  });

  it('refuses a migration that was edited after it had been applied, at a start too', async () => {
    await run();
    const edited = await makeRelease(THIS_RELEASE.version, {
      'migrations/0001-baseline.sql': '-- breaking: edited\nSELECT 1;',
    });
    const message =
      'Applied migrations were edited: 0001-baseline.sql. Restore the files as they were applied, and make the change in a new migration.';
    await expect(migrate({ connectionString: empty.url, logger, release: edited })).rejects.toThrow(message);
    expect(await findSchemaProblem(database, edited)).toBe(message);
    await edited.remove();
  });

  it('refuses a migration that does not say whether the previous release can serve with it', async () => {
    const silent = await makeRelease('0.10.0', {
      'migrations/0901-note.sql': 'ALTER TABLE activity ADD COLUMN note text;',
    });
    await expect(migrate({ connectionString: empty.url, logger, release: silent })).rejects.toThrow(
      'sql/migrations/0901-note.sql does not say whether the previous release can serve with it.',
    );
    expect(await database.query(`SELECT FROM pg_namespace WHERE nspname = 'pgboss'`)).toEqual([]);
    await silent.remove();
  });

  it('replaces the functions when they differ from those of the same release, and only then', async () => {
    await run();
    const replaced = 'SELECT replaced_at FROM schema_functions';
    const first = await database.query(replaced);
    await run();
    expect(await database.query(replaced)).toEqual(first);
    const changed = await makeRelease(THIS_RELEASE.version, {
      'functions/clock.sql':
        'CREATE OR REPLACE FUNCTION sync_now() RETURNS timestamptz LANGUAGE sql STABLE AS $$ SELECT now() $$;',
    });
    await migrate({ connectionString: empty.url, logger, release: changed });
    const [body] = await database.query(`SELECT prosrc FROM pg_proc WHERE proname = 'sync_now'`);
    expect(body).toEqual({ prosrc: ' SELECT now() ' });
    await changed.remove();
  });

  it('records what it did', async () => {
    const log = keepLog('info');
    await migrate({ connectionString: empty.url, logger: log.logger });
    await migrate({ connectionString: empty.url, logger: log.logger });
    expect(log.lines.map((line) => JSON.parse(line))).toMatchObject([
      ...(await migrationNames()).map((migration) => ({ message: 'migration applied', migration })),
      { message: 'pg-boss schema raised', version: BOSS_SCHEMA_VERSION },
      {
        message: 'functions replaced',
        release: THIS_RELEASE.version,
        checksum: expect.stringMatching(/^[0-9a-f]{12}$/),
      },
    ]);
  });

  it('names the version of pg-boss’s schema in the migration that upgraded it', async () => {
    const raisedTo = (await migrationNames()).flatMap((name) => /-pg-boss-(\d+)\.sql$/.exec(name)?.[1] ?? []);
    expect(BOSS_SCHEMA_VERSION).toBe(Number(raisedTo.at(-1) ?? BASELINE_BOSS_SCHEMA_VERSION));
  });

  it('leaves nothing behind of a migration that fails, and succeeds once the cause is gone', async () => {
    await database.query('CREATE TABLE thumbnail ()');
    await expect(run()).rejects.toMatchObject({ code: '42P07' });
    expect(await applied()).toEqual([]);
    await database.query('DROP TABLE thumbnail');
    await run();
    expect(await applied()).toEqual(await migrationNames());
  });
});

describe('a database that becomes unreachable while a process waits for another one’s migration', () => {
  it('fails the migration with the reason, and does not kill the process', async () => {
    const url = new URL(empty.url);
    const proxy = await startTcpProxy(Number(url.port));
    url.port = String(proxy.port);
    await database.transaction(async (tx) => {
      await tx.query(`SELECT pg_advisory_xact_lock(hashtextextended('activity-sync migrate', 0))`);
      const migrated = migrate({ connectionString: url.href, logger: createSilentLogger() }).catch(
        (error: Error) => error,
      );
      const isWaiting = async () =>
        (await tx.query(`SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted`)).length > 0;
      await until(isWaiting, 'the wait for the lock');
      proxy.cut();
      expect(await migrated).toMatchObject({ message: expect.stringMatching(/Connection terminated|ECONNRESET/) });
    });
    await proxy.close();
  });
});

describe('a process that vanishes while it migrates', () => {
  it('delays the next one only until the server finds its lock idle', async () => {
    const url = new URL(empty.url);
    const proxy = await startTcpProxy(Number(url.port));
    url.port = String(proxy.port);
    const gone = new Promise<void>((resolve) => proxy.holdFrom('schema_migration', () => resolve()));
    const vanished = migrate({ connectionString: url.href, logger: createSilentLogger(), lockIdleMs: 200 }).catch(
      (error: Error) => error,
    );
    await gone;
    await run();
    expect(await applied()).toEqual(await migrationNames());
    await proxy.close();
    expect(await vanished).toBeInstanceOf(Error);
  });

  it('does not count as vanished because it works for longer than that', async () => {
    await database.query('CREATE TABLE schema_migration (name text PRIMARY KEY, applied_at timestamptz DEFAULT now())');
    const migrated = await database.transaction(async (tx) => {
      await tx.query('LOCK TABLE schema_migration');
      const migrating = migrate({ connectionString: empty.url, logger: createSilentLogger(), lockIdleMs: 200 });
      const heldForLong = `SELECT FROM pg_locks JOIN pg_stat_activity a USING (pid) WHERE locktype = 'advisory' AND granted
        AND a.datname = current_database() AND a.backend_start < clock_timestamp() - interval '1 second'`;
      await until(async () => (await database.query(heldForLong)).length > 0, 'a lock that is kept');
      return { migrating };
    });
    await migrated.migrating;
    expect(await applied()).toEqual(await migrationNames());
  });
});
