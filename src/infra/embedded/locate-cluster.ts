import { randomUUID } from 'node:crypto';
import { chmod, mkdir, readFile, realpath, rename, stat, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { canEnter, chooseServerUser } from './choose-server-user.ts';
import { EmbeddedPostgresError } from './embedded-postgres-error.ts';
import type { WriteLog } from './embedded-postgres-log.ts';
import type { ServerUser } from './run-command.ts';

/** Where a data folder's cluster is and who runs it. */
export interface ClusterLocation {
  /** The data folder, as an absolute path without symbolic links. */
  dataDir: string;
  clusterDir: string;
  user: ServerUser | undefined;
}

/** Kept in the data folder of a cluster that had to go elsewhere. */
interface LocationRecord {
  clusterDir: string;
  /** True from the moment the cluster holds data that must not be lost. */
  created: boolean;
}

const RECORD_NAME = 'postgres-location.json';

/**
 * Finds the place of the cluster: `<dataDir>/postgres`, or, when root starts the service in a folder that
 * the server's account cannot enter, a folder of its own under `sharedDir`, noted in the data folder.
 * @throws EmbeddedPostgresError `CLUSTER_MISSING` when the noted place is gone, `CLUSTER_UNUSABLE` when
 * the account cannot enter it
 */
export async function locateCluster(dataDirOption: string, sharedDir: string, log: WriteLog): Promise<ClusterLocation> {
  await mkdir(dataDirOption, { recursive: true });
  const dataDir = await realpath(dataDirOption);
  const record = await readRecord(dataDir);
  if (record?.created === true && !(await exists(record.clusterDir))) throw clusterMissing(dataDir, record.clusterDir);
  const clusterDir = record?.clusterDir ?? join(dataDir, 'postgres');
  const user = await chooseServerUser([clusterDir, dataDir]);
  if (await exists(clusterDir)) {
    if (!(await canEnter(clusterDir, user))) throw await clusterUnusable(clusterDir, user);
    return { dataDir, clusterDir, user };
  }
  if (record === undefined && (await canEnter(dataDir, user))) return { dataDir, clusterDir, user };
  if (user === undefined) throw await clusterUnusable(dataDir, user);
  const elsewhere =
    record?.clusterDir ?? join(sharedDir, 'clusters', `${basename(dataDir)}-${randomUUID()}`, 'postgres');
  await createOpenFolders(sharedDir, join(sharedDir, 'clusters'), join(elsewhere, '..'));
  await writeRecord(dataDir, { clusterDir: elsewhere, created: false });
  log('info', `${dataDir} is closed to the user ${user.name}, who runs PostgreSQL; its data is kept in ${elsewhere}`);
  return { dataDir, clusterDir: elsewhere, user };
}

/** Notes that the cluster now holds data; nothing to do for one that lies in its data folder. */
export async function recordCreation(location: ClusterLocation): Promise<void> {
  const record = await readRecord(location.dataDir);
  if (record !== undefined && !record.created) await writeRecord(location.dataDir, { ...record, created: true });
}

/** Creates folders that every account may enter, whatever the umask. */
export async function createOpenFolders(...folders: string[]): Promise<void> {
  for (const folder of folders) {
    if (await exists(folder)) continue;
    await mkdir(folder, { recursive: true });
    await chmod(folder, 0o755);
  }
}

/** Whether something stands at the path. */
export async function exists(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
    throw error;
  }
}

async function readRecord(dataDir: string): Promise<LocationRecord | undefined> {
  const path = join(dataDir, RECORD_NAME);
  return (await exists(path)) ? (JSON.parse(await readFile(path, 'utf8')) as LocationRecord) : undefined;
}

async function writeRecord(dataDir: string, record: LocationRecord): Promise<void> {
  const path = join(dataDir, RECORD_NAME);
  await writeFile(`${path}.new`, JSON.stringify(record), { flush: true });
  await rename(`${path}.new`, path);
}

function clusterMissing(dataDir: string, clusterDir: string): EmbeddedPostgresError {
  return new EmbeddedPostgresError(
    'CLUSTER_MISSING',
    `The database of ${dataDir} was kept in ${clusterDir}, which is gone. Put it back (from a backup), or delete ${join(dataDir, RECORD_NAME)} to start with an empty database.`,
  );
}

async function clusterUnusable(folder: string, user: ServerUser | undefined): Promise<EmbeddedPostgresError> {
  const name = user?.name ?? `with the number ${process.getuid?.()}`;
  const owner = (await stat(folder)).uid;
  return new EmbeddedPostgresError(
    'CLUSTER_UNUSABLE',
    `The user ${name}, who has to run PostgreSQL, cannot enter ${folder} (its owner is the user number ${owner}). Make that folder and those above it accessible to that user, start the service as its owner or as root, or choose another DATA_DIR.`,
  );
}
