import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { type Release, THIS_RELEASE } from '../../src/infra/schema/release.ts';

/**
 * A release after this one: this one's SQL and more files, by their paths under sql/. Remove it by `remove`.
 * @param files replace those of the same path
 */
export async function makeRelease(
  version: string,
  files: Record<string, string>,
): Promise<Release & { remove(): Promise<void> }> {
  const folder = await mkdtemp(join(tmpdir(), 'activity-sync-release-'));
  await cp(THIS_RELEASE.sql, folder, { recursive: true });
  for (const [path, sql] of Object.entries(files)) await writeFile(join(folder, path), sql);
  return {
    version,
    sql: pathToFileURL(`${folder}/`),
    remove: () => rm(folder, { recursive: true }),
  };
}
