import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { removeEmbeddedPostgres, startEmbeddedPostgres } from '../../src/infra/embedded-postgres.ts';
import { createSilentLogger } from '../../src/infra/logger.ts';
import { migrate } from '../../src/infra/migrate.ts';

/** A PostgreSQL of the benchmark's own, as durable as production: it waits for the disk. */
export interface BenchPostgres {
  /** Creates a database. @param migrated with this version's schema, else empty @returns its address */
  createDatabase(migrated?: boolean): Promise<string>;
  stop(): Promise<void>;
}

/** Starts one; or uses the server of BENCH_DATABASE_URL unchanged, whose user must be allowed to create databases. */
export async function startBenchPostgres(flags: readonly string[] = []): Promise<BenchPostgres> {
  const server = await startServer(flags);
  const run = randomBytes(4).toString('hex');
  const names: string[] = [];
  return {
    createDatabase: async (migrated = true) => {
      const name = `bench_${run}_${names.length + 1}`;
      names.push(name);
      await runSql(server.adminUrl, `CREATE DATABASE ${name}`);
      const url = new URL(server.adminUrl);
      url.pathname = `/${name}`;
      if (migrated) {
        await migrate({ connectionString: url.href, logger: createSilentLogger() });
        // Those that the benchmarks' events name; any other is not trusted.
        await runSql(url.href, `INSERT INTO subscription (subscription_id, callback_url) VALUES (120475, ''), (1, '')`);
      }
      return url.href;
    },
    stop: async () => {
      for (const name of names) await runSql(server.adminUrl, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
      await server.stop();
    },
  };
}

async function startServer(flags: readonly string[]): Promise<{ adminUrl: string; stop(): Promise<void> }> {
  const given = process.env.BENCH_DATABASE_URL;
  if (given !== undefined && given !== '') return { adminUrl: given, stop: async () => undefined };
  const dataDir = await mkdtemp(join(tmpdir(), 'activity-sync-bench-'));
  const postgres = await startEmbeddedPostgres({
    dataDir,
    log: () => undefined,
    postgresFlags: ['-c', 'max_connections=200', '-c', 'min_wal_size=1GB', ...flags],
  });
  await fillLog(postgres.connectionString);
  return {
    adminUrl: postgres.connectionString,
    stop: async () => {
      await postgres.stop();
      await removeEmbeddedPostgres({ dataDir, log: () => undefined });
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}

const LOG_SEGMENTS = 40;

/**
 * Leaves the server with WAL segments to recycle, like one that has been up for a while. A new server
 * creates each of them when needed, 16 MB of zeros, while every commit waits.
 */
async function fillLog(connectionString: string): Promise<void> {
  for (let n = 0; n < LOG_SEGMENTS; n += 1) {
    await runSql(connectionString, `SELECT pg_logical_emit_message(false, 'bench', ''), pg_switch_wal()`);
  }
  await runSql(connectionString, 'CHECKPOINT');
}

/** Runs one statement on a connection of its own. */
export async function runSql<Row extends object = Record<string, unknown>>(
  connectionString: string,
  text: string,
  values?: unknown[],
): Promise<Row[]> {
  const client = new pg.Client({ connectionString });
  await client.connect();
  try {
    return (await client.query<Row>(text, values)).rows;
  } finally {
    await client.end();
  }
}
