import { randomUUID } from 'node:crypto';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import {
  type EmbeddedPostgres,
  type EmbeddedPostgresOptions,
  startEmbeddedPostgres,
} from '../../src/infra/embedded-postgres.ts';

/** A temporary folder in which the tests of a file run the embedded PostgreSQL. */
export interface EmbeddedPostgresRig {
  folder: string;
  /** One cluster serves all tests except those about a special folder: creating it is slow. */
  dataDir: string;
  /** What was logged since the servers were last stopped. */
  logLines: string[];
  /** Starts a server, on `dataDir` unless the options say otherwise. */
  start(options?: Partial<EmbeddedPostgresOptions>): Promise<EmbeddedPostgres>;
  /** Stops every server that was started, and clears the log. */
  stopServers(): Promise<void>;
  close(): Promise<void>;
}

export async function createEmbeddedPostgresRig(): Promise<EmbeddedPostgresRig> {
  const folder = await mkdtemp(join(tmpdir(), 'embedded-postgres-'));
  // When root runs the tests, another account runs PostgreSQL and has to reach the folder.
  await chmod(folder, 0o755);
  const dataDir = join(folder, 'data');
  const logLines: string[] = [];
  const servers: EmbeddedPostgres[] = [];
  return {
    folder,
    dataDir,
    logLines,
    start: async (options = {}) => {
      const server = await startEmbeddedPostgres({
        dataDir,
        log: (level, message) => logLines.push(`${level} ${message}`),
        postgresFlags: ['-c', 'fsync=off'],
        ...options,
      });
      servers.push(server);
      return server;
    },
    stopServers: async () => {
      for (const server of servers.splice(0)) await server.stop();
      logLines.length = 0;
    },
    close: () => rm(folder, { recursive: true, force: true }),
  };
}

/** Commits a new text, to be found after what follows. */
export async function writeNote(connectionString: string): Promise<string> {
  const note = randomUUID();
  await query(connectionString, `DROP TABLE IF EXISTS note; CREATE TABLE note AS SELECT '${note}' AS body`);
  return note;
}

export async function readNote(connectionString: string): Promise<unknown> {
  return (await query(connectionString, 'SELECT body FROM note'))[0]?.body;
}

/** Runs a statement on a connection of its own. */
export async function query(connectionString: string, sql: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString });
  try {
    await client.connect();
    return (await client.query(sql)).rows;
  } finally {
    await client.end();
  }
}
