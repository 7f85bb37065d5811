import { randomUUID } from 'node:crypto';
import {
  chown,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  readlink,
  realpath,
  rename,
  rm,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { keepSecret, readKeptSecret } from '../kept-secret.ts';
import { EmbeddedPostgresError } from './embedded-postgres-error.ts';
import type { WriteLog } from './embedded-postgres-log.ts';
import { exists, openFolder } from './folders.ts';
import type { PostgresBinaries } from './provide-binaries.ts';
import { canEnter, chooseServerAccount, runAs, type ServerAccount } from './server-account.ts';

/** The superuser of every embedded cluster. */
export const SUPERUSER = 'postgres';

/** Where a data folder's cluster is, or will be, and who runs it. */
export interface ClusterLocation {
  clusterDir: string;
  account: ServerAccount;
}

/** Where the password of the cluster's superuser is kept. */
export function passwordPath(dataDir: string): string {
  return join(dataDir, 'postgres-password');
}

/**
 * Finds the cluster: `<dataDir>/postgres`, or the target of that symbolic link. When root starts the service in a
 * folder that the server's account cannot enter, a new cluster is placed under `sharedDir`.
 * @throws EmbeddedPostgresError `CLUSTER_MISSING` when the link is broken, `CLUSTER_UNUSABLE` when the account
 * cannot enter the folder
 */
export async function locateCluster(dataDir: string, sharedDir: string, log: WriteLog): Promise<ClusterLocation> {
  const existing = await findCluster(dataDir);
  const clusterDir = existing ?? clusterPath(dataDir);
  const account = await chooseServerAccount([clusterDir, dataDir]);
  const folder = existing ?? dataDir;
  if (await canEnter(folder, account)) return { clusterDir, account };
  if (account === undefined || existing !== undefined) throw clusterUnusable(folder, account);
  const place = await openFolder(join(sharedDir, 'clusters', `${basename(dirname(dataDir))}-${randomUUID()}`));
  log('warn', `${dataDir} is closed to the user ${account.name}, which runs PostgreSQL; its data is kept in ${place}`);
  return { clusterDir: join(place, 'postgres'), account };
}

/** The real path of a data folder's cluster; undefined when there is none yet. */
export async function findCluster(dataDir: string): Promise<string | undefined> {
  const path = clusterPath(dataDir);
  // Releases up to 0.1 recorded the place of a cluster elsewhere in a file.
  const note = join(dataDir, 'postgres-location.json');
  if (await exists(note)) {
    const noted = JSON.parse(await readFile(note, 'utf8')) as { clusterDir: string; created: boolean };
    if (noted.created) await symlink(noted.clusterDir, path);
    await rm(note);
  }
  if (await exists(path)) return realpath(path);
  const target = await readlink(path).catch(() => undefined);
  if (target === undefined) return undefined;
  throw new EmbeddedPostgresError(
    'CLUSTER_MISSING',
    `The database of ${dataDir} was kept in ${target}, which no longer exists. Restore it from a backup, or delete the link ${path} to start with an empty database.`,
  );
}

/**
 * Makes sure that the cluster exists, matches the programs' version, and has the stored password; a cluster whose
 * password file was lost gets a new one.
 * @returns the superuser's password
 * @throws EmbeddedPostgresError `INITDB_FAILED` or `CLUSTER_UNUSABLE`
 */
export async function prepareCluster(
  dataDir: string,
  location: ClusterLocation,
  binaries: PostgresBinaries,
  log: WriteLog,
): Promise<string> {
  const { clusterDir } = location;
  const passwordLost = (await readKeptSecret(passwordPath(dataDir))) === undefined;
  const password = await keepSecret(passwordPath(dataDir));
  const versionFile = join(clusterDir, 'PG_VERSION');
  if (!(await exists(versionFile))) {
    await createCluster(location, binaries, password, log);
    if (clusterDir !== clusterPath(dataDir)) await symlink(clusterDir, clusterPath(dataDir));
    return password;
  }
  const version = (await readFile(versionFile, 'utf8')).trim();
  if (version !== binaries.majorVersion) {
    throw new EmbeddedPostgresError(
      'CLUSTER_UNUSABLE',
      `The cluster ${clusterDir} was created by PostgreSQL ${version}, and this release ships PostgreSQL ${binaries.majorVersion}. Dump it with the release that created it (pg_dump) and load the dump into a new cluster, or set DATABASE_URL to a PostgreSQL ${version} that runs it.`,
    );
  }
  if (passwordLost) await replacePassword(location, binaries, password, log);
  return password;
}

/** Deletes the cluster of a data folder wherever it is, and its password. No server may run on it. */
export async function deleteCluster(dataDir: string): Promise<void> {
  const clusterDir = await findCluster(dataDir);
  const path = clusterPath(dataDir);
  // Elsewhere it has its own parent folder.
  if (clusterDir !== undefined && clusterDir !== path) await rm(dirname(clusterDir), { recursive: true, force: true });
  await rm(path, { recursive: true, force: true });
  await rm(passwordPath(dataDir), { force: true });
}

function clusterPath(dataDir: string): string {
  return join(dataDir, 'postgres');
}

/**
 * Creates an empty cluster: UTF8, Unicode case rules that do not depend on the operating system, passwords
 * only. It is built beside its target and renamed, so an interrupted creation leaves nothing that looks complete.
 */
async function createCluster(
  { clusterDir, account }: ClusterLocation,
  binaries: PostgresBinaries,
  password: string,
  log: WriteLog,
): Promise<void> {
  if ((await exists(clusterDir)) && (await readdir(clusterDir)).length > 0) {
    throw new EmbeddedPostgresError(
      'CLUSTER_UNUSABLE',
      `${clusterDir} holds files, but no database cluster (PG_VERSION is missing). Restore the cluster from a backup, or move the folder away to start with an empty database.`,
    );
  }
  log('info', `creating the database cluster ${clusterDir}`);
  const draft = await mkdtemp(`${clusterDir}.new-`).catch((error: Error) => {
    throw initdbFailed(clusterDir, error.message);
  });
  try {
    const [passwordFile, cluster] = [join(draft, 'password'), join(draft, 'cluster')];
    await mkdir(cluster, { mode: 0o700 });
    await writeFile(passwordFile, password, { mode: 0o600 });
    if (account) for (const path of [draft, cluster, passwordFile]) await chown(path, account.uid, account.gid);
    const { exitCode, output } = await runAs(account, binaries.initdb, [
      `--pgdata=${cluster}`,
      `--username=${SUPERUSER}`,
      `--pwfile=${passwordFile}`,
      '--auth=scram-sha-256',
      '--encoding=UTF8',
      '--locale=C',
      '--locale-provider=builtin',
      '--builtin-locale=C.UTF-8',
      '--no-instructions',
    ]);
    if (exitCode !== 0) throw initdbFailed(clusterDir, output.split('\n').slice(-5).join(' '));
    await rename(cluster, clusterDir).catch((error: NodeJS.ErrnoException) => {
      // Another start was faster, with the same password.
      if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error;
    });
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
  log('info', 'database cluster created');
}

/** Sets the superuser's password without knowing the old one, which only the owner of a stopped cluster can do. */
async function replacePassword(
  { clusterDir, account }: ClusterLocation,
  binaries: PostgresBinaries,
  password: string,
  log: WriteLog,
): Promise<void> {
  log('warn', `the password of ${clusterDir} is lost; setting a new one`);
  const sql = `ALTER ROLE ${SUPERUSER} PASSWORD '${password}';\n\n`;
  const { exitCode, output } = await runAs(
    account,
    binaries.postgres,
    ['--single', '-j', '-D', clusterDir, 'postgres'],
    sql,
  );
  if (exitCode === 0 && !/(ERROR|FATAL|PANIC): /.test(output)) return;
  const complaint = output.replaceAll(password, '…').split('\n').slice(-5).join(' ');
  throw new EmbeddedPostgresError(
    'CLUSTER_UNUSABLE',
    `The password of the cluster ${clusterDir} is lost, and a new one could not be set: ${complaint}`,
  );
}

function initdbFailed(clusterDir: string, complaint: string): EmbeddedPostgresError {
  return new EmbeddedPostgresError(
    'INITDB_FAILED',
    `PostgreSQL could not create its cluster ${clusterDir}: ${complaint}. Remove the cause, choose another DATA_DIR, or set DATABASE_URL.`,
  );
}

function clusterUnusable(folder: string, account: ServerAccount): EmbeddedPostgresError {
  return new EmbeddedPostgresError(
    'CLUSTER_UNUSABLE',
    `The user ${account?.name ?? `with the number ${process.getuid?.()}`}, which must run PostgreSQL, cannot enter ${folder}. Give that user access to the folder and those above it, start the service as its owner or as root, or choose another DATA_DIR.`,
  );
}
