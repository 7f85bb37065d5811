import { randomBytes } from 'node:crypto';
import { chown, link, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';

/** Reads a secret that was kept in a file; undefined when there is none. */
export async function readKeptSecret(file: string): Promise<string | undefined> {
  try {
    return (await readFile(file, 'utf8')).trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/**
 * Reads the secret of a file, or makes one: 64 hexadecimal digits that only the owner of the folder can read.
 * Processes that make it at the same time get the same one.
 */
export async function keepSecret(file: string): Promise<string> {
  const kept = await readKeptSecret(file);
  if (kept !== undefined) return kept;
  const secret = randomBytes(32).toString('hex');
  const draft = `${file}.${randomBytes(4).toString('hex')}`;
  await writeFile(draft, secret, { mode: 0o600, flush: true });
  try {
    if (process.getuid?.() === 0) {
      const { uid, gid } = await stat(dirname(file));
      await chown(draft, uid, gid);
    }
    await link(draft, file);
    return secret;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    return (await readFile(file, 'utf8')).trim();
  } finally {
    await rm(draft, { force: true });
  }
}
