import { randomBytes } from 'node:crypto';
import { chmod, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { exists } from './locate-cluster.ts';

/**
 * Reads the password of the cluster's superuser, or invents one at the first start. The file lies in the
 * data folder and is readable by its owner only.
 */
export async function keepPassword(dataDir: string): Promise<string> {
  const path = join(dataDir, 'postgres-password');
  if (!(await exists(path))) {
    await writeFile(`${path}.new`, randomBytes(24).toString('base64url'), { mode: 0o600, flush: true });
    await rename(`${path}.new`, path);
  }
  await chmod(path, 0o600);
  return (await readFile(path, 'utf8')).trim();
}
