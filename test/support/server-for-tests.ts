import { randomBytes } from 'node:crypto';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { startEmbeddedPostgres } from '../../src/infra/embedded-postgres.ts';

/** The names under which the test files find what the global setup prepared. */
export const ADMIN_URL_VARIABLE = 'TEST_ADMIN_DATABASE_URL';
export const RUN_ID_VARIABLE = 'TEST_RUN_ID';

/** The database server of one Jest run. */
export interface ServerForTests {
  adminUrl: string;
  runId: string;
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

  const dataDir = await mkdtemp(join(tmpdir(), 'activity-sync-test-'));
  const removeFolder = () => rm(dataDir, { recursive: true, force: true });
  try {
    // Open to the account that runs PostgreSQL when the tests run as root.
    await chmod(dataDir, 0o755);
    const postgres = await startEmbeddedPostgres({
      dataDir,
      log: (level, message) => {
        if (level === 'error') process.stderr.write(`PostgreSQL of the tests: ${message}\n`);
      },
      postgresFlags: ['-c', 'fsync=off', '-c', 'synchronous_commit=off', '-c', 'full_page_writes=off'],
    });
    return {
      adminUrl: postgres.connectionString,
      runId,
      stop: async () => {
        await postgres.stop();
        await removeFolder();
      },
    };
  } catch (error) {
    await removeFolder();
    throw error;
  }
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
