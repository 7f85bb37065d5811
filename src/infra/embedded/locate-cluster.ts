import { randomUUID } from 'node:crypto';
import { readFile, realpath, rename, rm, stat, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { canEnter, chooseServerUser } from './choose-server-user.ts';
import { EmbeddedPostgresError } from './embedded-postgres-error.ts';
import type { WriteLog } from './embedded-postgres-log.ts';
import { createOpenFolders, exists, inheritOwner } from './folders.ts';
import type { ServerUser } from './run-command.ts';

/** Where a data folder's cluster is and who runs it. */
export interface ClusterLocation {
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

/** Where the cluster of a data folder belongs, unless the folder is closed to the server's account. */
export function usualClusterDir(dataDir: string): string {
  return join(dataDir, 'postgres');
}

/**
 * Finds the place of the cluster: `<dataDir>/postgres`, or, when root starts the service in a folder that
 * the server's account cannot enter, a folder of its own under `sharedDir`, noted in the data folder.
 * Only to be called with the claim on the usual place.
 * @throws EmbeddedPostgresError `CLUSTER_MISSING` when the noted place is gone, `CLUSTER_UNUSABLE` when
 * the account cannot enter it
 */
export async function locateCluster(dataDir: string, sharedDir: string, log: WriteLog): Promise<ClusterLocation> {
  const record = await readRecord(dataDir);
  const clusterDir = record?.clusterDir ?? usualClusterDir(dataDir);
  const user = await chooseServerUser([clusterDir, dataDir]);
  if (await exists(clusterDir)) {
    if (!(await canEnter(clusterDir, user))) throw await clusterUnusable(clusterDir, user);
    return { dataDir, clusterDir, user };
  }
  if (record?.created === true) throw clusterMissing(dataDir, clusterDir);
  if (record === undefined && (await canEnter(dataDir, user))) return { dataDir, clusterDir, user };
  if (user === undefined) throw await clusterUnusable(dataDir, user);
  return { dataDir, clusterDir: await chooseOtherPlace(dataDir, sharedDir, user, log), user };
}

/** The place of a data folder's cluster, whether it exists yet or not. */
export async function findClusterDir(dataDir: string): Promise<string> {
  return (await readRecord(dataDir))?.clusterDir ?? usualClusterDir(dataDir);
}

/** Notes that the cluster now holds data; nothing to do for one that lies in its data folder. */
export async function recordCreation(dataDir: string): Promise<void> {
  const record = await readRecord(dataDir);
  if (record !== undefined && !record.created) await writeRecord(dataDir, { ...record, created: true });
}

/** Deletes the cluster of a data folder wherever it lies, and the note of its place. */
export async function deleteCluster(dataDir: string): Promise<void> {
  const clusterDir = await findClusterDir(dataDir);
  // Elsewhere it has a folder of its own around it.
  await rm(clusterDir === usualClusterDir(dataDir) ? clusterDir : dirname(clusterDir), {
    recursive: true,
    force: true,
  });
  await rm(join(dataDir, RECORD_NAME), { force: true });
}

async function chooseOtherPlace(dataDir: string, sharedDir: string, user: ServerUser, log: WriteLog): Promise<string> {
  // A name that no other project had before, so that no forgotten cluster comes back to life.
  const place = join(sharedDir, 'clusters', `${basename(dirname(dataDir))}-${randomUUID()}`);
  await createOpenFolders(sharedDir, dirname(place), place);
  const clusterDir = join(await realpath(place), 'postgres');
  await writeRecord(dataDir, { clusterDir, created: false });
  log('warn', `${dataDir} is closed to the user ${user.name}, who runs PostgreSQL; its data is kept in ${clusterDir}`);
  return clusterDir;
}

async function readRecord(dataDir: string): Promise<LocationRecord | undefined> {
  const path = join(dataDir, RECORD_NAME);
  return (await exists(path)) ? (JSON.parse(await readFile(path, 'utf8')) as LocationRecord) : undefined;
}

async function writeRecord(dataDir: string, record: LocationRecord): Promise<void> {
  const path = join(dataDir, RECORD_NAME);
  await writeFile(`${path}.new`, JSON.stringify(record), { flush: true });
  await inheritOwner(`${path}.new`);
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
    `The user ${name}, who has to run PostgreSQL, cannot enter ${folder} (its owner is the user number ${owner}). Open that folder and those above it to that user, start the service as its owner or as root, or choose another DATA_DIR.`,
  );
}
