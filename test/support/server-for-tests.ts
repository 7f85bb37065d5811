import { randomBytes } from 'node:crypto';
import { chmod, mkdtemp, readdir, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { EmbeddedPostgresError } from '../../src/infra/embedded/embedded-postgres-error.ts';
import type { LogLevel } from '../../src/infra/embedded/embedded-postgres-log.ts';
import { removeEmbeddedPostgres, startEmbeddedPostgres } from '../../src/infra/embedded-postgres.ts';

/** The names under which the test files find what the global setup prepared. */
export const ADMIN_URL_VARIABLE = 'TEST_ADMIN_DATABASE_URL';
export const RUN_ID_VARIABLE = 'TEST_RUN_ID';

const FOLDER_PREFIX = 'activity-sync-test-';
const STARTED_AFTER_MS = 600_000;

/** The database server of one Jest run. */
export interface ServerForTests {
  adminUrl: string;
  runId: string;
  /** Leaves nothing of the run behind. Safe to call twice: an interrupted Jest does. */
  stop(): Promise<void>;
}

/**
 * Starts the one PostgreSQL that all test files share, in a temporary folder and without waiting for the
 * disk; or uses the server of TEST_DATABASE_URL, whose user must be allowed to create databases.
 */
export async function startServerForTests(): Promise<ServerForTests> {
  const runId = randomBytes(5).toString('hex');
  const given = process.env.TEST_DATABASE_URL;
  if (given !== undefined && given !== '') {
    return { adminUrl: given, runId, stop: () => dropDatabasesOfRun(given, runId) };
  }

  await removeLeftovers();
  const dataDir = await mkdtemp(join(tmpdir(), FOLDER_PREFIX));
  try {
    // Open to the account that runs PostgreSQL when the tests run as root.
    await chmod(dataDir, 0o755);
    const postgres = await startEmbeddedPostgres({
      dataDir,
      log: reportErrors,
      postgresFlags: ['-c', 'fsync=off', '-c', 'synchronous_commit=off', '-c', 'full_page_writes=off'],
    });
    const stopAndRemove = async () => {
      await postgres.stop();
      await removeDataFolder(dataDir);
    };
    let stopping: Promise<void> | undefined;
    return {
      adminUrl: postgres.connectionString,
      runId,
      stop: () => {
        stopping ??= stopAndRemove();
        return stopping;
      },
    };
  } catch (error) {
    await removeDataFolder(dataDir);
    throw error;
  }
}

/** Removes the folders of earlier runs that were killed; their servers ended with them. */
async function removeLeftovers(): Promise<void> {
  for (const name of await readdir(tmpdir())) {
    const dataDir = join(tmpdir(), name);
    if (!name.startsWith(FOLDER_PREFIX)) continue;
    try {
      // A younger one may belong to a run that is just starting.
      if (Date.now() - (await stat(dataDir)).mtimeMs > STARTED_AFTER_MS) await removeDataFolder(dataDir);
    } catch (error) {
      // Its run lives, it is another user's, or another run has removed it.
      const isGone = (error as NodeJS.ErrnoException).code === 'ENOENT';
      if (!isGone && !(error instanceof EmbeddedPostgresError)) throw error;
    }
  }
}

async function removeDataFolder(dataDir: string): Promise<void> {
  await removeEmbeddedPostgres({ dataDir, log: reportErrors });
  await rm(dataDir, { recursive: true, force: true });
}

function reportErrors(level: LogLevel, message: string): void {
  if (level === 'error') process.stderr.write(`PostgreSQL of the tests: ${message}\n`);
}

async function dropDatabasesOfRun(adminUrl: string, runId: string): Promise<void> {
  const client = new pg.Client({ connectionString: adminUrl });
  await client.connect();
  try {
    const { rows } = await client.query<{ datname: string }>(
      'SELECT datname FROM pg_database WHERE starts_with(datname, $1)',
      [`test_${runId}_`],
    );
    for (const { datname } of rows) await client.query(`DROP DATABASE ${datname} WITH (FORCE)`);
  } finally {
    await client.end();
  }
}
