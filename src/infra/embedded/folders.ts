import { access, chmod, chown, constants, mkdir, realpath, stat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { EmbeddedPostgresError } from './embedded-postgres-error.ts';

/**
 * Creates the data folder where it is missing, and checks that this process can write into it.
 * @returns its absolute path without symbolic links
 * @throws EmbeddedPostgresError `FOLDER_UNUSABLE`
 */
export async function openDataFolder(path: string): Promise<string> {
  try {
    if (!(await exists(path))) {
      await mkdir(path, { recursive: true });
      await inheritOwner(resolve(path));
    }
    await access(path, constants.R_OK | constants.W_OK | constants.X_OK);
    return await realpath(path);
  } catch (error) {
    throw folderUnusable(
      resolve(path),
      error,
      'Make it writable for the user of this process, or choose another DATA_DIR.',
    );
  }
}

/**
 * Creates folders that every account may enter, whatever the umask.
 * @throws EmbeddedPostgresError `FOLDER_UNUSABLE`
 */
export async function createOpenFolders(...folders: string[]): Promise<void> {
  for (const folder of folders) {
    try {
      if (await exists(folder)) continue;
      await mkdir(folder, { recursive: true });
      await chmod(folder, 0o755);
    } catch (error) {
      throw folderUnusable(
        folder,
        error,
        'Make that possible, start the service as an ordinary user, or set DATABASE_URL.',
      );
    }
  }
}

/** Gives what root created to the owner of the folder it lies in, who may start the service without root next time. */
export async function inheritOwner(path: string): Promise<void> {
  if (process.getuid?.() !== 0) return;
  const { uid, gid } = await stat(dirname(path));
  await chown(path, uid, gid);
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

function folderUnusable(folder: string, error: unknown, remedy: string): EmbeddedPostgresError {
  return new EmbeddedPostgresError(
    'FOLDER_UNUSABLE',
    `The folder ${folder}, needed by the embedded PostgreSQL, cannot be created or written: ${(error as Error).message}. ${remedy}`,
    { cause: error },
  );
}
