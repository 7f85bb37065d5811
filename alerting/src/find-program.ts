import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';

/**
 * Finds a program that a check needs.
 *
 * If it is absent, the check must say what it did not check; in CI it must be present.
 * @param unchecked what goes unchecked without it
 * @returns its path, or undefined outside CI
 * @throws in CI when it is absent
 */
export function findProgram(name: string, debianPackage: string, unchecked: string): string | undefined {
  for (const folder of (process.env.PATH ?? '').split(delimiter)) {
    const path = join(folder, name);
    try {
      accessSync(path, constants.X_OK);
      return path;
    } catch (error) {
      if (!['ENOENT', 'ENOTDIR', 'EACCES'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
    }
  }
  const message = `${name} is absent (Debian package ${debianPackage}), so NOT CHECKED: ${unchecked}`;
  if (process.env.CI) throw new Error(message);
  process.stderr.write(`${message}\n`);
  return undefined;
}
