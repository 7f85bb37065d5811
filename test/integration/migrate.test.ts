import { readFile } from 'node:fs/promises';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { ASPECTS, OUTCOMES } from '../../src/domain/job.ts';
import type { Database } from '../../src/infra/database.ts';
import { createSilentLogger } from '../../src/infra/logger.ts';
import { migrate } from '../../src/infra/migrate.ts';
import { MigrationError } from '../../src/infra/schema/migration-error.ts';
import { readMigrations, THIS_RELEASE } from '../../src/infra/schema/release.ts';
import { createTestDatabase, openTestDatabase, type TestDatabase } from '../support/database.ts';
import { describeSchema } from '../support/describe-schema.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';
import { until } from '../support/until.ts';

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
const run = () => migrate({ connectionString: empty.url, logger: createSilentLogger() });
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

  it('makes the schema that sql/schema.sql shows (npm run schema:dump writes it)', async () => {
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

  it('compiles nothing in a function that forbids a kind of plan', async () => {
    // PostgreSQL 15 to 17 take such a plan for a costly one where there is no other, and compile it at each call.
    await run();
    const functions = await database.query<{ name: string; settings: string[] }>(
      `SELECT proname AS name, proconfig AS settings FROM pg_proc WHERE array_to_string(proconfig, ',') LIKE '%enable_seqscan=off%'`,
    );
    expect(functions.map(({ name }) => name).sort()).toEqual(['accept_events', 'claim_runs', 'store_runs']);
    for (const { settings } of functions) expect(settings).toContain('jit=off');
  });

  it('gives pg-boss’s jobs ids of UUID version 7, which follow those of earlier milliseconds', async () => {
    await run();
    const make = `SELECT time_ordered_uuid()::text AS id, (extract(epoch FROM clock_timestamp()) * 1000)::bigint::text AS ms FROM generate_series(1, 500)`;
    const made = await database.query<{ id: string; ms: string }>(make);
    expect(
      made.filter(({ id }) => !/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(id)),
    ).toEqual([]);
    expect(new Set(made.map(({ id }) => id)).size).toBe(500);
    const off = made.map(({ id, ms }) => Number(ms) - Number.parseInt(id.replaceAll('-', '').slice(0, 12), 16));
    expect(off.filter((ms) => Math.abs(ms) > 1000)).toEqual([]);
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

  it('leaves nothing behind of a migration that fails, and succeeds once the cause is gone', async () => {
    await database.query('CREATE TABLE thumbnail ()');
    await expect(run()).rejects.toMatchObject({ code: '42P07' });
    expect(await applied()).toEqual([]);
    await database.query('DROP TABLE thumbnail');
    await run();
    expect(await applied()).toEqual(await migrationNames());
  });
});

describe('a database that goes away while a process waits for another that migrates', () => {
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

describe('a process that is gone without a word while it migrates', () => {
  it('holds up the next one only until the server finds its lock idle', async () => {
    const url = new URL(empty.url);
    const proxy = await startTcpProxy(Number(url.port));
    url.port = String(proxy.port);
    const gone = new Promise<void>((resolve) => proxy.holdFrom('schema_migration', resolve));
    const vanished = migrate({ connectionString: url.href, logger: createSilentLogger(), lockIdleMs: 200 }).catch(
      (error: Error) => error,
    );
    await gone;
    await run();
    expect(await applied()).toEqual(await migrationNames());
    await proxy.close();
    expect(await vanished).toBeInstanceOf(Error);
  });

  it('is not taken for gone because it works for longer than that', async () => {
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
