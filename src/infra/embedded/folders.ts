import { access, chmod, chown, constants, mkdir, realpath, stat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { EmbeddedPostgresError } from './embedded-postgres-error.ts';

/**
 * Creates a folder if it is missing, open to every account, and checks that this process can write into it.
 * @returns its absolute path without symbolic links
 * @throws EmbeddedPostgresError `FOLDER_UNUSABLE`
 */
export async function openFolder(path: string): Promise<string> {
  const folder = resolve(path);
  try {
    await createFolder(folder);
    await access(folder, constants.R_OK | constants.W_OK | constants.X_OK);
    return await realpath(folder);
  } catch (error) {
    throw new EmbeddedPostgresError(
      'FOLDER_UNUSABLE',
      `The folder ${folder}, needed by the embedded PostgreSQL, cannot be created or written: ${(error as Error).message}. Make it writable for the user of this process, choose another DATA_DIR, or set DATABASE_URL.`,
      { cause: error },
    );
  }
}

/** Whether a file or folder exists at the path; a symbolic link to nothing does not. */
export async function exists(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
    throw error;
  }
}

/** Folder by folder: Node's own recursive mkdir never returns for a path under /proc. */
async function createFolder(folder: string): Promise<void> {
  if (await exists(folder)) return;
  await createFolder(dirname(folder));
  await mkdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error;
  });
  await chmod(folder, 0o755);
  if (process.getuid?.() !== 0) return;
  // Its owner may start the service without root next time.
  const { uid, gid } = await stat(dirname(folder));
  await chown(folder, uid, gid);
}
