import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { type Database, openDatabase } from '../../src/infra/database.ts';
import { createSilentLogger } from '../../src/infra/logger.ts';
import { migrate } from '../../src/infra/migrate.ts';
import { ADMIN_URL_VARIABLE, RUN_ID_VARIABLE } from './server-for-tests.ts';

/** A database that one test file has for itself. */
export interface TestDatabase {
  url: string;
  /** Removes it, ending whatever is still connected. Safe to call twice. */
  drop(): Promise<void>;
}

/**
 * Creates a database of the caller's own, on the server that the global setup started.
 * @param options.template false gives an empty database; otherwise it has this version's schema, copied
 * from a template that the first caller of the run migrates
 */
export async function createTestDatabase(options: { template?: boolean } = {}): Promise<TestDatabase> {
  const name = `test_${runId()}_${randomUUID().slice(0, 8)}`;
  await asAdmin(async (client) => {
    const template = options.template === false ? 'template0' : await ensureTemplate(client);
    await client.query(`CREATE DATABASE ${name} TEMPLATE ${template}`);
  });
  return {
    url: urlOf(name),
    drop: () => asAdmin((client) => client.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`)),
  };
}

/** Opens a pool on a test's database. Connections that are lost show in what the test does next. */
export function openTestDatabase(url: string, maxConnections = 1): Database {
  return openDatabase({ connectionString: url, maxConnections, applicationName: 'test', onError: () => undefined });
}

/** A role that may log in and nothing else. Remove it after the databases in which it has rights. */
export async function createTestRole(): Promise<{ name: string; password: string; drop(): Promise<void> }> {
  const name = `test_${runId()}_${randomUUID().slice(0, 8)}`;
  const password = randomUUID();
  await asAdmin((client) => client.query(`CREATE ROLE ${name} LOGIN PASSWORD '${password}'`));
  return { name, password, drop: () => asAdmin((client) => client.query(`DROP ROLE ${name}`)) };
}

/** Creates the template unless a caller of this run has; the others wait for it. It gets its name when it is complete. */
async function ensureTemplate(client: pg.Client): Promise<string> {
  const name = `test_${runId()}_template`;
  await client.query('SELECT pg_advisory_lock(hashtextextended($1, 0))', [name]);
  try {
    const { rowCount } = await client.query('SELECT FROM pg_database WHERE datname = $1', [name]);
    if (rowCount === 0) {
      const draft = `${name}_draft`;
      await client.query(`DROP DATABASE IF EXISTS ${draft} WITH (FORCE)`);
      await client.query(`CREATE DATABASE ${draft} TEMPLATE template0`);
      await migrate({ connectionString: urlOf(draft), logger: createSilentLogger() });
      await client.query(`ALTER DATABASE ${draft} RENAME TO ${name}`);
    }
  } finally {
    await client.query('SELECT pg_advisory_unlock(hashtextextended($1, 0))', [name]);
  }
  return name;
}

async function asAdmin(work: (client: pg.Client) => Promise<unknown>): Promise<void> {
  const client = new pg.Client({ connectionString: requiredVariable(ADMIN_URL_VARIABLE) });
  await client.connect();
  try {
    await work(client);
  } finally {
    await client.end();
  }
}

function runId(): string {
  return requiredVariable(RUN_ID_VARIABLE);
}

function urlOf(database: string): string {
  const url = new URL(requiredVariable(ADMIN_URL_VARIABLE));
  url.pathname = `/${database}`;
  return url.href;
}

function requiredVariable(name: string): string {
  const value = process.env[name];
  if (value === undefined)
    throw new Error(`${name} is not set. Run the tests through npm test or jest with its global setup.`);
  return value;
}
