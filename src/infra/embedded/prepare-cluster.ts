import { chown, mkdir, readFile, rename, rm, rmdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { EmbeddedPostgresError } from './embedded-postgres-error.ts';
import type { WriteLog } from './embedded-postgres-log.ts';
import { exists } from './folders.ts';
import { inventPassword, keepPassword, readPassword } from './keep-password.ts';
import { type ClusterLocation, recordCreation } from './locate-cluster.ts';
import type { PostgresBinaries } from './provide-binaries.ts';
import { runCommand } from './run-command.ts';

/** The superuser of every embedded cluster. */
export const SUPERUSER = 'postgres';

/**
 * Sees to it that the cluster exists, fits the programs, and has the password that is kept for it: a new
 * cluster gets one, and so does a cluster whose password file was lost.
 * @returns the superuser's password
 * @throws EmbeddedPostgresError `INITDB_FAILED` or `CLUSTER_UNUSABLE`
 */
export async function prepareCluster(
  location: ClusterLocation,
  binaries: PostgresBinaries,
  log: WriteLog,
): Promise<string> {
  const keptPassword = await readPassword(location.dataDir);
  const password = keptPassword ?? inventPassword();
  const versionFile = join(location.clusterDir, 'PG_VERSION');
  if (await exists(versionFile)) {
    const version = (await readFile(versionFile, 'utf8')).trim();
    if (version !== binaries.majorVersion) throw wrongVersion(location.clusterDir, version, binaries.majorVersion);
    if (keptPassword === undefined) await replacePassword(location, binaries, password, log);
  } else {
    await createCluster(location, binaries, password, log);
  }
  await recordCreation(location.dataDir);
  if (keptPassword === undefined) await keepPassword(location.dataDir, password);
  return password;
}

/**
 * Creates an empty cluster: UTF8, Unicode case rules that do not depend on the operating system, passwords
 * only. It is built beside its place and renamed, so an interrupted creation leaves nothing that looks done.
 */
async function createCluster(
  { clusterDir, user }: ClusterLocation,
  binaries: PostgresBinaries,
  password: string,
  log: WriteLog,
): Promise<void> {
  log('info', `creating the database cluster ${clusterDir}`);
  await removeEmptyFolder(clusterDir);
  const draft = `${clusterDir}.draft`;
  await rm(draft, { recursive: true, force: true });
  await mkdir(draft, { mode: 0o700 });
  try {
    const passwordFile = join(draft, 'password');
    await writeFile(passwordFile, password, { mode: 0o600 });
    if (user !== undefined) for (const path of [draft, passwordFile]) await chown(path, user.uid, user.gid);
    const newCluster = join(draft, 'cluster');
    const { exitCode, output } = await runCommand(binaries.initdb, initdbArguments(newCluster, passwordFile), { user });
    if (exitCode !== 0) throw initdbFailed(clusterDir, output);
    await rename(newCluster, clusterDir);
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
  log('info', 'database cluster created');
}

function initdbArguments(pgdata: string, passwordFile: string): string[] {
  return [
    `--pgdata=${pgdata}`,
    `--username=${SUPERUSER}`,
    `--pwfile=${passwordFile}`,
    '--auth=scram-sha-256',
    '--encoding=UTF8',
    '--locale=C',
    '--locale-provider=builtin',
    '--builtin-locale=C.UTF-8',
    '--no-instructions',
  ];
}

/** Sets the superuser's password without knowing the old one, which only the owner of a stopped cluster can do. */
async function replacePassword(
  { clusterDir, user }: ClusterLocation,
  binaries: PostgresBinaries,
  password: string,
  log: WriteLog,
): Promise<void> {
  log('warn', `the password of ${clusterDir} is lost; setting a new one`);
  const { exitCode, output } = await runCommand(binaries.postgres, ['--single', '-j', '-D', clusterDir, 'postgres'], {
    user,
    input: `ALTER ROLE ${SUPERUSER} PASSWORD '${password}';\n\n`,
  });
  if (exitCode === 0 && !/^.*(ERROR|FATAL|PANIC): /m.test(output)) return;
  const complaint = output.replaceAll(password, '…').split('\n').slice(-5).join(' ');
  throw new EmbeddedPostgresError(
    'CLUSTER_UNUSABLE',
    `The password of the cluster ${clusterDir} is lost, and a new one could not be set: ${complaint}`,
  );
}

async function removeEmptyFolder(clusterDir: string): Promise<void> {
  if (!(await exists(clusterDir))) return;
  try {
    await rmdir(clusterDir);
  } catch (error) {
    throw new EmbeddedPostgresError(
      'CLUSTER_UNUSABLE',
      `${clusterDir} holds files, but no database cluster (PG_VERSION is missing). Put the cluster back from a backup, or move the folder away to start with an empty database.`,
      { cause: error },
    );
  }
}

function initdbFailed(clusterDir: string, output: string): EmbeddedPostgresError {
  const complaint = output.split('\n').slice(-5).join(' ');
  return new EmbeddedPostgresError(
    'INITDB_FAILED',
    `PostgreSQL could not create its cluster ${clusterDir}: ${complaint}. Clear the way for it, choose another DATA_DIR, or set DATABASE_URL.`,
  );
}

function wrongVersion(clusterDir: string, version: string, expected: string): EmbeddedPostgresError {
  return new EmbeddedPostgresError(
    'CLUSTER_UNUSABLE',
    `The cluster ${clusterDir} is of PostgreSQL ${version}, and this version of the service brings PostgreSQL ${expected}. Dump it with the version that made it (pg_dump) and load the dump into a new cluster, or set DATABASE_URL to a PostgreSQL ${version} that runs it.`,
  );
}
