import { randomBytes } from 'node:crypto';
import { chmod, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { exists, inheritOwner } from './folders.ts';

/** Where the password of the cluster's superuser is kept. */
export function passwordPath(dataDir: string): string {
  return join(dataDir, 'postgres-password');
}

/** Reads the kept password; undefined when there is none. */
export async function readPassword(dataDir: string): Promise<string | undefined> {
  const path = passwordPath(dataDir);
  return (await exists(path)) ? (await readFile(path, 'utf8')).trim() : undefined;
}

/** Invents a password: 32 characters that need no escaping in a URL or in SQL. */
export function inventPassword(): string {
  return randomBytes(24).toString('base64url');
}

/** Keeps a password in a file that only its owner can read. */
export async function keepPassword(dataDir: string, password: string): Promise<void> {
  const path = passwordPath(dataDir);
  await writeFile(`${path}.new`, password, { mode: 0o600, flush: true });
  await chmod(`${path}.new`, 0o600);
  await inheritOwner(`${path}.new`);
  await rename(`${path}.new`, path);
}
