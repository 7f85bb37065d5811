import { rm } from 'node:fs/promises';
import pg from 'pg';
import { type ClusterClaim, claimCluster } from './embedded/claim-cluster.ts';
import { EmbeddedPostgresError } from './embedded/embedded-postgres-error.ts';
import type { WriteLog } from './embedded/embedded-postgres-log.ts';
import { openDataFolder } from './embedded/folders.ts';
import { passwordPath } from './embedded/keep-password.ts';
import { launchServer, type RunningServer } from './embedded/launch-server.ts';
import { deleteCluster, findClusterDir, locateCluster, usualClusterDir } from './embedded/locate-cluster.ts';
import { prepareCluster, SUPERUSER } from './embedded/prepare-cluster.ts';
import { identifyProcess } from './embedded/process-identity.ts';
import { provideBinaries } from './embedded/provide-binaries.ts';
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
  /** Hears once of a server that ended without stop(). It stays ended. */
  onUnexpectedEnd?: (error: EmbeddedPostgresError) => void;
}

const DATABASE = 'activity_sync';

/**
 * Starts a PostgreSQL server of our own, with an empty database at the first start. Only one process runs
 * the server of a data folder: what a killed process left running is stopped and started anew, and while
 * that process lives a second start is refused.
 * @throws EmbeddedPostgresError with a code and a message that says what to do
 */
export async function startEmbeddedPostgres(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const { log } = options;
  if (process.platform === 'win32') {
    throw new EmbeddedPostgresError(
      'UNSUPPORTED_PLATFORM',
      'The embedded PostgreSQL runs on Linux and macOS. Set DATABASE_URL to a PostgreSQL server.',
    );
  }
  const dataDir = await openDataFolder(options.dataDir);
  const claims: ClusterClaim[] = [await claimCluster(usualClusterDir(dataDir), log)];
  const releaseClaims = async () => {
    for (const claim of claims) await claim.release();
  };
  try {
    const server = await startInClaimedFolder(dataDir, options, claims);
    return {
      ...server,
      stop: async () => {
        await server.stop();
        await releaseClaims();
      },
    };
  } catch (error) {
    await releaseClaims();
    throw error;
  }
}

/**
 * Deletes the database of a data folder, for databases that were only meant for a while. A server that a
 * killed process left running is stopped first.
 * @throws EmbeddedPostgresError `ALREADY_RUNNING` while a living process runs it, this one included
 */
export async function removeEmbeddedPostgres(options: { dataDir: string; log: WriteLog }): Promise<void> {
  const dataDir = await openDataFolder(options.dataDir);
  const claim = await claimCluster(usualClusterDir(dataDir), options.log);
  try {
    await stopOrphans(await findClusterDir(dataDir), options.log);
    await deleteCluster(dataDir);
    await rm(passwordPath(dataDir), { force: true });
  } finally {
    await claim.release();
  }
}

async function startInClaimedFolder(
  dataDir: string,
  options: EmbeddedPostgresOptions,
  claims: ClusterClaim[],
): Promise<EmbeddedPostgres> {
  const { log, sharedDir = '/var/lib/activity-sync', postgresFlags = [] } = options;
  const location = await locateCluster(dataDir, sharedDir, log);
  // A copy of the data folder points to the same cluster elsewhere, and must not run it as well.
  if (location.clusterDir !== usualClusterDir(dataDir)) claims.push(await claimCluster(location.clusterDir, log));
  await stopOrphans(location.clusterDir, log);
  const binaries = await provideBinaries(location.user, sharedDir, log);
  const password = await prepareCluster(location, binaries, log);
  const server = await launchServer({ ...location, binaries, postgresFlags, log });
  const stop = superviseServer(server, options);
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
 * Ends the server with this process, and says so when it ends by itself.
 * @returns stops it, once however often it is called
 */
function superviseServer(server: RunningServer, options: EmbeddedPostgresOptions): () => Promise<void> {
  const identity = identifyProcess(server.pid);
  let stopping: Promise<void> | undefined;
  // A process that leaves without stop() takes its server along; after SIGKILL the next start does.
  const endWithProcess = () => server.process.kill('SIGINT');
  process.once('exit', endWithProcess);
  void server.ended.then((reason) => {
    process.off('exit', endWithProcess);
    if (stopping !== undefined) return;
    const error = new EmbeddedPostgresError('ENDED', `PostgreSQL ended by itself (${reason}). Restart the service.`);
    options.log('error', error.message);
    options.onUnexpectedEnd?.(error);
  });
  const stop = async () => {
    if (identity !== undefined) await stopServer(identity, options.log);
    await server.ended;
  };
  return () => {
    stopping ??= stop();
    return stopping;
  };
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
    const INVALID_PASSWORD = '28P01';
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
