import { readdir, readFile } from 'node:fs/promises';
import { systemClock } from '../domain/clock.ts';
import { createBoss, createQueues } from './boss.ts';
import { installBossStatements } from './boss-statements.ts';
import { type Database, openDatabase, type Queryable } from './database.ts';
import type { Logger } from './logger.ts';

const MIGRATIONS = new URL('../../sql/migrations/', import.meta.url);
const LOCK = `hashtextextended('activity-sync migrate', 0)`;
const OLDEST_SERVER = 150_000; // PostgreSQL 15
// After so long without a word from its session the server ends it, and with it the lock: its host may be gone.
const LOCK_IDLE_MS = 60_000;

/** The schema cannot be brought to what this version needs; the message says what to do. */
export class MigrationError extends Error {
  override name = 'MigrationError';
  readonly code = 'MIGRATION';
}

/**
 * Brings the database to this version's schema: pg-boss's own first, then each file of sql/migrations in
 * a transaction of its own, forward only. Any number of processes may run it at once: one works, the
 * others wait and find nothing to do.
 * @param options.lockIdleMs for how long the lock of a process that is gone without a word keeps the others waiting
 * @throws MigrationError for a server that cannot be reached or is too old, or a schema newer than this version
 */
export async function migrate(options: {
  connectionString: string;
  logger: Logger;
  lockIdleMs?: number;
}): Promise<void> {
  const lockIdleMs = options.lockIdleMs ?? LOCK_IDLE_MS;
  const onError = (error: Error) =>
    options.logger.warn('connection lost while migrating', { component: 'migrate', error: error.message });
  const database = openDatabase({
    connectionString: options.connectionString,
    maxConnections: 3,
    queryTimeoutMs: 0, // waits for another process that migrates, and for large tables
    applicationName: 'activity-sync migrate',
    onError,
  });
  try {
    if ((await readServerVersion(database)) < OLDEST_SERVER) {
      throw new MigrationError('The database server is older than PostgreSQL 15. Point DATABASE_URL to a newer one.');
    }
    // Held by this session for as long as the whole migration takes.
    const lock = await database.pool.connect();
    lock.on('error', onError); // the pool does not listen while a connection is out
    let signOfLife: unknown;
    let isAnswerDue = false;
    const giveSignOfLife = async (): Promise<void> => {
      if (isAnswerDue) return;
      isAnswerDue = true;
      await lock.query('SELECT').catch(() => undefined); // a lost connection tells of itself
      isAnswerDue = false;
    };
    try {
      await lock.query(`SET idle_session_timeout = ${lockIdleMs}`);
      const { rows } = await lock.query(`SELECT pg_try_advisory_lock(${LOCK}) AS ours`);
      if (!rows[0].ours) {
        options.logger.info('another process migrates the database; waiting for it', { component: 'migrate' });
        await lock.query(`SELECT pg_advisory_lock(${LOCK})`);
      }
      signOfLife = systemClock.setInterval(giveSignOfLife, lockIdleMs / 4);
      const boss = createBoss({
        database,
        clock: systemClock,
        logger: options.logger,
        migrate: true,
        supervise: false,
      });
      await refuseNewerSchema(database);
      try {
        await boss.start();
        await createQueues(boss);
        await applyMigrations(database, options.logger);
        await installBossStatements(boss, database);
      } finally {
        await boss.stop({ graceful: false, close: false });
      }
    } finally {
      systemClock.clearInterval(signOfLife);
      lock.release(true); // closing the connection frees the lock, whatever happened
    }
  } finally {
    await database.close();
  }
}

/** The first statement of all: what fails here is the way to the server. */
async function readServerVersion(database: Database): Promise<number> {
  try {
    const [server] = await database.query<{ version: number }>(
      `SELECT current_setting('server_version_num')::int AS version`,
    );
    return server?.version ?? 0;
  } catch (error) {
    throw new MigrationError(
      `The database cannot be used: ${(error as Error).message}. Start its server, or correct DATABASE_URL.`,
      { cause: error },
    );
  }
}

/** Before anything is changed: an older version must not touch what a newer one has made. */
async function refuseNewerSchema(database: Database): Promise<void> {
  const files = await migrationNames();
  const unknown = [...(await readApplied(database))].filter((name) => !files.includes(name));
  if (unknown.length > 0) {
    throw new MigrationError(
      `The database was migrated by a newer version of the service (it has ${unknown.join(', ')}). Start that version, or restore a backup.`,
    );
  }
}

async function applyMigrations(database: Database, logger: Logger): Promise<void> {
  const applied = await readApplied(database);
  for (const name of (await migrationNames()).filter((file) => !applied.has(file))) {
    const sql = await readFile(new URL(name, MIGRATIONS), 'utf8');
    await database.transaction(async (tx) => {
      await tx.query(sql);
      await tx.query('INSERT INTO schema_migration (name) VALUES ($1)', [name]);
    });
    logger.info('migration applied', { component: 'migrate', migration: name });
  }
}

async function readApplied(database: Database): Promise<Set<string>> {
  await database.query(
    `CREATE TABLE IF NOT EXISTS schema_migration (name text CONSTRAINT schema_migration_pkey PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())`,
  );
  const rows = await database.query<{ name: string }>('SELECT name FROM schema_migration');
  return new Set(rows.map((row) => row.name));
}

/** The migrations of this version that the database lacks. @throws where it was never migrated at all */
export async function findMissingMigrations(database: Queryable): Promise<string[]> {
  const rows = await database.query<{ name: string }>('SELECT name FROM schema_migration', []);
  const applied = new Set(rows.map((row) => row.name));
  return (await migrationNames()).filter((name) => !applied.has(name));
}

/** The names of all migrations, in order. */
export async function migrationNames(): Promise<string[]> {
  return (await readdir(MIGRATIONS)).filter((name) => name.endsWith('.sql')).sort();
}
