import { readFile } from 'node:fs/promises';
import { setTimeout } from 'node:timers/promises';
import type pg from 'pg';
import type { PgBoss } from 'pg-boss';
import { systemClock } from '../domain/clock.ts';
import { createBoss, createQueues } from './boss.ts';
import { type Database, openDatabase } from './database.ts';
import type { Logger } from './logger.ts';
import { areFunctionsCurrent, compareSchema, readApplied, type SchemaDifference } from './schema/check-schema.ts';
import { grantRuntimeRights, readOwner, roleOf } from './schema/grants.ts';
import { MigrationError } from './schema/migration-error.ts';
import { type Release, readFunctions, THIS_RELEASE } from './schema/release.ts';
import { RELEASE_0_1_MIGRATIONS } from './schema/release-0.1.ts';

const COMPONENT = 'migrate';
const LOCK = `hashtextextended('activity-sync migrate', 0)`;
const OLDEST_SERVER = 150_000; // PostgreSQL 15
// After this long without data from its session the server ends it, and with it the lock: its host may have vanished.
const LOCK_IDLE_MS = 60_000;
const INDEX_POLL_MS = 500;
const BASELINE = '0001-baseline.sql';
/** Tables' defaults call its functions, so it comes before the first migration. */
const CLOCK_FUNCTIONS = 'functions/clock.sql';
const UPGRADE_FROM_0_1 = 'upgrades/from-0.1.sql';

interface MigrateOptions {
  /** The service's address. A role that does not own the schema is granted what the service needs. */
  connectionString: string;
  /** The owner's address, if it differs. */
  migrationUrl?: string;
  logger: Logger;
  /** How long the lock of a vanished process makes the others wait. */
  lockIdleMs?: number;
  release?: Release;
}

/**
 * Brings the database to a release's schema, forward only: each new file of sql/migrations in its own transaction,
 * pg-boss's schema and queues, then the functions of sql/functions, all in one transaction. A schema that a newer
 * release has made is left alone. Any number of processes may run it at once: one works, the others wait.
 * @returns the names of all applied migrations, and of those that only a newer release has, in order
 * @throws MigrationError for a server that cannot be reached or is too old, an edited migration, or a schema of a
 * newer release that this one cannot serve with
 */
export async function migrate(options: MigrateOptions): Promise<{ migrations: string[]; newer: string[] }> {
  const { logger, lockIdleMs = LOCK_IDLE_MS, release = THIS_RELEASE } = options;
  const onError = (error: Error) =>
    logger.warn('connection lost while migrating', { component: COMPONENT, error: error.message });
  const database = openDatabase({
    connectionString: options.migrationUrl ?? options.connectionString,
    maxConnections: 3,
    statementMs: 0, // waits for another process that migrates, and for large tables
    applicationName: 'activity-sync migrate',
    onError,
  });
  try {
    await checkServer(database);
    const lock = await database.pool.connect();
    lock.on('error', onError); // the pool does not listen while a connection is out
    try {
      return await underLock(lock, { lockIdleMs, logger }, async () => {
        const { newer } = await migrateAlone(database, release, logger);
        await grantRights(database, options);
        return { migrations: (await readApplied(database)).map(({ name }) => name), newer };
      });
    } finally {
      lock.release(true); // closing the connection frees the lock, whatever happened
    }
  } finally {
    await database.close();
  }
}

/** The first statement: a failure here means that the server cannot be reached. */
async function checkServer(database: Database): Promise<void> {
  let version: number | undefined;
  try {
    const [server] = await database.query<{ version: number }>(
      `SELECT current_setting('server_version_num')::int AS version`,
    );
    version = server?.version;
  } catch (error) {
    throw new MigrationError(
      `The database cannot be used: ${(error as Error).message}. Start its server, or correct DATABASE_URL.`,
      { cause: error },
    );
  }
  if (version === undefined || version < OLDEST_SERVER) {
    throw new MigrationError('The database server is older than PostgreSQL 15. Point DATABASE_URL to a newer one.');
  }
}

/** Runs `work` while this session, kept alive, holds the lock of all migrations. */
async function underLock<T>(
  lock: pg.PoolClient,
  { lockIdleMs, logger }: { lockIdleMs: number; logger: Logger },
  work: () => Promise<T>,
): Promise<T> {
  let isAnswerDue = false;
  const giveSignOfLife = async (): Promise<void> => {
    if (isAnswerDue) return;
    isAnswerDue = true;
    await lock.query('SELECT').catch(() => undefined); // a lost connection emits its error
    isAnswerDue = false;
  };
  await lock.query(`SET idle_session_timeout = ${lockIdleMs}`);
  const { rows } = await lock.query(`SELECT pg_try_advisory_lock(${LOCK}) AS ours`);
  if (!rows[0].ours) {
    logger.info('another process is migrating the database, waiting for it', { component: COMPONENT });
    await lock.query(`SELECT pg_advisory_lock(${LOCK})`);
  }
  const signOfLife = systemClock.setInterval(giveSignOfLife, lockIdleMs / 4);
  try {
    return await work();
  } finally {
    systemClock.clearInterval(signOfLife);
  }
}

async function migrateAlone(database: Database, release: Release, logger: Logger): Promise<SchemaDifference> {
  const boss = createBoss({ database, clock: systemClock, logger, migrate: true, supervise: false });
  const difference = await compareSchema(database, boss, release);
  if (difference.newer.length > 0) return difference;
  try {
    // Tables' defaults call pg-boss's clock. An existing schema is upgraded last: the migration that announces the
    // upgrade to processes of the previous release is applied before it.
    if (!(await boss.isInstalled())) await boss.start();
    await createOwnTables(database);
    await applyMigrations(database, release, difference, logger);
    await boss.start();
    await createQueues(boss);
    if (difference.bossIsBehind) {
      logger.info('pg-boss schema raised', { component: COMPONENT, version: await boss.schemaVersion() });
    }
    await replaceFunctions(database, release, logger);
    await waitForIndexes(boss);
    return difference;
  } finally {
    await boss.stop({ graceful: false, close: false });
  }
}

/** pg-boss builds the indexes of an upgraded schema one after another while it runs; a start of the service does not. */
async function waitForIndexes(boss: PgBoss): Promise<void> {
  const isBuilding = async () =>
    (await boss.getBamStatus()).some(({ status }) => status === 'pending' || status === 'in_progress');
  while (await isBuilding()) await setTimeout(INDEX_POLL_MS);
}

/** This file's own records: the migrations applied, each once, and which release's functions the database has. */
async function createOwnTables(database: Database): Promise<void> {
  await database.query(
    'CREATE TABLE IF NOT EXISTS schema_migration (name text CONSTRAINT schema_migration_pkey PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())',
  );
  // Release 0.1 kept names and times only.
  await database.query(
    'ALTER TABLE schema_migration ADD COLUMN IF NOT EXISTS checksum text, ADD COLUMN IF NOT EXISTS compatible boolean NOT NULL DEFAULT false',
  );
  await database.query(
    `CREATE TABLE IF NOT EXISTS schema_functions (
       one_row boolean DEFAULT true CONSTRAINT schema_functions_pkey PRIMARY KEY CONSTRAINT schema_functions_one_row CHECK (one_row),
       release text NOT NULL, checksum text NOT NULL, replaced_at timestamptz NOT NULL DEFAULT now())`,
  );
}

async function applyMigrations(
  database: Database,
  release: Release,
  { missing, isOfRelease01 }: SchemaDifference,
  logger: Logger,
): Promise<void> {
  for (const migration of missing) {
    const isUpgrade = isOfRelease01 && migration.name === BASELINE;
    await database.transaction(async (tx) => {
      if (migration.name === BASELINE) await tx.query(await readFile(new URL(CLOCK_FUNCTIONS, release.sql), 'utf8'));
      await tx.query(isUpgrade ? await readFile(new URL(UPGRADE_FROM_0_1, release.sql), 'utf8') : migration.sql);
      if (isUpgrade) await tx.query('DELETE FROM schema_migration WHERE name = ANY ($1)', [RELEASE_0_1_MIGRATIONS]);
      await tx.query('INSERT INTO schema_migration (name, checksum, compatible) VALUES ($1, $2, $3)', [
        migration.name,
        migration.checksum,
        migration.compatible,
      ]);
    });
    if (isUpgrade) logger.info('database of release 0.1 upgraded', { component: COMPONENT });
    else logger.info('migration applied', { component: COMPONENT, migration: migration.name });
  }
}

/** Functions, views and triggers are replaced as a whole, unless a newer release has replaced them. */
async function replaceFunctions(database: Database, release: Release, logger: Logger): Promise<void> {
  if (await areFunctionsCurrent(database, release)) return;
  const { files, checksum } = await readFunctions(release);
  await database.transaction(async (tx) => {
    await tx.query('SET LOCAL check_function_bodies = off'); // functions call those of later files
    for (const { sql } of files) await tx.query(sql);
    await tx.query(
      `INSERT INTO schema_functions (release, checksum) VALUES ($1, $2)
       ON CONFLICT (one_row) DO UPDATE SET release = excluded.release, checksum = excluded.checksum, replaced_at = now()`,
      [release.version, checksum],
    );
  });
  logger.info('functions replaced', {
    component: COMPONENT,
    release: release.version,
    checksum: checksum.slice(0, 12),
  });
}

async function grantRights(
  database: Database,
  { connectionString, migrationUrl, logger }: MigrateOptions,
): Promise<void> {
  const role = roleOf(connectionString);
  if (migrationUrl === undefined || role === (await readOwner(database))) return;
  await grantRuntimeRights(database, role);
  logger.info('rights granted', { component: COMPONENT, role });
}
