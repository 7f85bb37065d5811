import pg from 'pg';
import {
  deleteCluster,
  findCluster,
  locateCluster,
  passwordPath,
  prepareCluster,
  SUPERUSER,
} from './embedded/cluster.ts';
import { EmbeddedPostgresError } from './embedded/embedded-postgres-error.ts';
import type { WriteLog } from './embedded/embedded-postgres-log.ts';
import { openFolder } from './embedded/folders.ts';
import { provideBinaries } from './embedded/provide-binaries.ts';
import { launchServer, untilUnlocked } from './embedded/server.ts';

/** A PostgreSQL server that belongs to this process, and ends with it. */
export interface EmbeddedPostgres {
  /** Contains the password: not for the log. */
  connectionString: string;
  port: number;
  pid: number;
  /** Stops the server and waits until it has ended. Safe to call twice. */
  stop(): Promise<void>;
}

export interface EmbeddedPostgresOptions {
  /** The cluster (`postgres/`) and its password (`postgres-password`) are kept here; created when missing. */
  dataDir: string;
  log: WriteLog;
  /** Further arguments for the server, e.g. `['-c', 'fsync=off']`. */
  postgresFlags?: readonly string[];
  /** Where root keeps files that the server's account could not reach elsewhere. */
  sharedDir?: string;
  /** Called once when the server ends without stop(). It is not restarted. */
  onUnexpectedEnd?: (error: EmbeddedPostgresError) => void;
}

const DATABASE = 'activity_sync';
const INVALID_PASSWORD = '28P01';

/**
 * Starts our own PostgreSQL server, with an empty database at the first start. PostgreSQL's lock file allows one
 * server at a time on a cluster.
 * @throws EmbeddedPostgresError with a code and a message that says what to do
 */
export async function startEmbeddedPostgres(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const { log, sharedDir = '/var/lib/activity-sync', postgresFlags: flags = [] } = options;
  if (process.platform === 'win32') {
    throw new EmbeddedPostgresError(
      'UNSUPPORTED_PLATFORM',
      'The embedded PostgreSQL runs on Linux and macOS. Set DATABASE_URL to a PostgreSQL server.',
    );
  }
  const dataDir = await openFolder(options.dataDir);
  const location = await locateCluster(dataDir, sharedDir, log);
  await untilUnlocked(location.clusterDir, log);
  const binaries = await provideBinaries(location.account, sharedDir, log);
  const password = await prepareCluster(dataDir, location, binaries, log);
  const server = await launchServer({ ...location, postgres: binaries.postgres, flags, log });

  let stopping: Promise<void> | undefined;
  void server.ended.then((reason) => {
    if (stopping !== undefined) return;
    const error = new EmbeddedPostgresError('ENDED', `PostgreSQL ended unexpectedly (${reason}). Restart the service.`);
    log('error', error.message);
    options.onUnexpectedEnd?.(error);
  });
  const stop = () => {
    stopping ??= server.stop();
    return stopping;
  };
  const connectionString = `postgresql://${SUPERUSER}:${password}@127.0.0.1:${server.port}/${DATABASE}`;
  try {
    await ensureDatabase(connectionString, passwordPath(dataDir));
  } catch (error) {
    await stop();
    throw error;
  }
  log('info', `PostgreSQL runs on 127.0.0.1:${server.port} (process ${server.pid}, data in ${location.clusterDir})`);
  return { connectionString, port: server.port, pid: server.pid, stop };
}

/**
 * Deletes the database of a data folder, for temporary databases.
 * @throws EmbeddedPostgresError `ALREADY_RUNNING` while a server runs on it
 */
export async function removeEmbeddedPostgres(options: { dataDir: string; log: WriteLog }): Promise<void> {
  const dataDir = await openFolder(options.dataDir);
  const clusterDir = await findCluster(dataDir);
  if (clusterDir !== undefined) await untilUnlocked(clusterDir, options.log);
  await deleteCluster(dataDir);
}

async function ensureDatabase(connectionString: string, passwordFile: string): Promise<void> {
  const maintenance = new URL(connectionString);
  maintenance.pathname = '/postgres';
  const client = new pg.Client({ connectionString: maintenance.href });
  try {
    await client.connect();
    const { rowCount } = await client.query('SELECT FROM pg_database WHERE datname = $1', [DATABASE]);
    if (rowCount === 0) await client.query(`CREATE DATABASE ${DATABASE}`);
  } catch (error) {
    const remedy =
      (error as { code?: string }).code === INVALID_PASSWORD
        ? `Delete ${passwordFile}, and the next start sets a new password.`
        : 'Start again, or set DATABASE_URL.';
    throw new EmbeddedPostgresError(
      'START_FAILED',
      `PostgreSQL started, but its database cannot be opened: ${(error as Error).message}. ${remedy}`,
      { cause: error },
    );
  } finally {
    await client.end();
  }
}
