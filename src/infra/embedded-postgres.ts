import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import pg from 'pg';
import { claimCluster } from './embedded/claim-cluster.ts';
import { createCluster, SUPERUSER } from './embedded/create-cluster.ts';
import { EmbeddedPostgresError } from './embedded/embedded-postgres-error.ts';
import type { WriteLog } from './embedded/embedded-postgres-log.ts';
import { keepPassword } from './embedded/keep-password.ts';
import { launchServer, type RunningServer } from './embedded/launch-server.ts';
import { type ClusterLocation, exists, locateCluster, recordCreation } from './embedded/locate-cluster.ts';
import { identifyProcess } from './embedded/process-identity.ts';
import { type PostgresBinaries, provideBinaries } from './embedded/provide-binaries.ts';
import { stopOrphans, stopServer } from './embedded/stop-server.ts';

/** A PostgreSQL server that belongs to this process. */
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
  /** Further arguments of the server, e.g. `['-c', 'fsync=off']`. */
  postgresFlags?: readonly string[];
  /** Where root keeps what the server's account cannot reach otherwise. */
  sharedDir?: string;
}

const DATABASE = 'activity_sync';

/**
 * Starts a PostgreSQL server of our own, with an empty database at the first start. Only one process runs
 * the server of a data folder: what a killed process left running is stopped and started anew, and while
 * that process lives a second start is refused.
 * @throws EmbeddedPostgresError with a code and a message that says what to do
 */
export async function startEmbeddedPostgres(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const { log, sharedDir = '/var/lib/activity-sync', postgresFlags = [] } = options;
  const location = await locateCluster(options.dataDir, sharedDir, log);
  const claim = await claimCluster(location.clusterDir);
  try {
    await stopOrphans(location.clusterDir, log);
    const binaries = await provideBinaries(location.user, sharedDir, log);
    const password = await keepPassword(location.dataDir);
    await ensureCluster(location, binaries, password, log);
    const server = await launchServer({ ...location, binaries, postgresFlags, log });
    const supervision = supervise(server, log);
    const connectionString = `postgresql://${SUPERUSER}:${password}@127.0.0.1:${server.port}/${DATABASE}`;
    try {
      await ensureDatabase(connectionString);
    } catch (error) {
      await supervision.stop();
      throw error;
    }
    log('info', `PostgreSQL runs on 127.0.0.1:${server.port} (process ${server.pid}, data in ${location.clusterDir})`);
    return {
      connectionString,
      port: server.port,
      pid: server.pid,
      stop: async () => {
        await supervision.stop();
        await claim.release();
      },
    };
  } catch (error) {
    await claim.release();
    throw error;
  }
}

async function ensureCluster(
  location: ClusterLocation,
  binaries: PostgresBinaries,
  password: string,
  log: WriteLog,
): Promise<void> {
  const versionFile = join(location.clusterDir, 'PG_VERSION');
  if (!(await exists(versionFile))) await createCluster({ ...location, password, binaries, log });
  await recordCreation(location);
  const version = (await readFile(versionFile, 'utf8')).trim();
  log('debug', `the cluster is of PostgreSQL ${version}`);
}

/** Ends the server with this process, and says so when it ends by itself. */
function supervise(server: RunningServer, log: WriteLog): { stop(): Promise<void> } {
  let stopping: Promise<void> | undefined;
  const identity = identifyProcess(server.pid);
  // A process that leaves without stop() takes its server along; after SIGKILL the next start does.
  const endWithProcess = () => server.process.kill('SIGINT');
  process.once('exit', endWithProcess);
  void server.ended.then((reason) => {
    process.off('exit', endWithProcess);
    if (stopping === undefined) log('error', `PostgreSQL ended by itself (${reason}). Restart the service.`);
  });
  const stop = async () => {
    if (identity !== undefined) await stopServer(identity, log);
    await server.ended;
  };
  return {
    stop: () => {
      stopping ??= stop();
      return stopping;
    },
  };
}

async function ensureDatabase(connectionString: string): Promise<void> {
  const maintenance = new URL(connectionString);
  maintenance.pathname = '/postgres';
  const client = new pg.Client({ connectionString: maintenance.href });
  try {
    await client.connect();
    const { rowCount } = await client.query('SELECT FROM pg_database WHERE datname = $1', [DATABASE]);
    if (rowCount === 0) await client.query(`CREATE DATABASE ${DATABASE}`);
  } catch (error) {
    throw new EmbeddedPostgresError(
      'START_FAILED',
      `PostgreSQL started, but its database cannot be opened: ${(error as Error).message}.`,
      { cause: error },
    );
  } finally {
    await client.end();
  }
}
