import { randomUUID } from 'node:crypto';
import { cp, readFile, rename, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { EmbeddedPostgresError } from './embedded-postgres-error.ts';
import type { WriteLog } from './embedded-postgres-log.ts';
import { exists, openFolder } from './folders.ts';
import { runAs, type ServerAccount } from './server-account.ts';

/** PostgreSQL's programs, as absolute paths. */
export interface PostgresBinaries {
  initdb: string;
  postgres: string;
  /** As recorded in a cluster's PG_VERSION, e.g. "18". */
  majorVersion: string;
}

/**
 * Finds programs that the server's account can run: those of the package `embedded-postgres`, or, where
 * it cannot reach them, a copy of them under `sharedDir` (60 MB, made once for each version).
 * @throws EmbeddedPostgresError `UNSUPPORTED_PLATFORM` or `BINARIES_UNUSABLE`
 */
export async function provideBinaries(
  account: ServerAccount,
  sharedDir: string,
  log: WriteLog,
): Promise<PostgresBinaries> {
  const { packageDir, version } = await resolvePackage();
  const nativeDir = join(packageDir, 'native');
  let found = await tryBinaries(nativeDir, account);
  if ('complaint' in found) {
    // The package's install script, which links its libraries, may not have been allowed to run.
    const script = 'cd -- "$1" && exec "$2" scripts/hydrate-symlinks.js';
    await runAs(undefined, '/bin/sh', ['-c', script, 'sh', packageDir, process.execPath]);
    found = await tryBinaries(nativeDir, account);
  }
  if ('majorVersion' in found) return found;
  if (account === undefined) throw binariesUnusable(nativeDir, found.complaint);

  const copyDir = join(sharedDir, 'binaries', `${version}-${process.platform}-${process.arch}`);
  if (!(await exists(copyDir))) {
    log('info', `${nativeDir} is closed to the user ${account.name}; copying PostgreSQL (60 MB) to ${copyDir}`);
    await copyForEveryone(nativeDir, copyDir);
  }
  const inCopy = await tryBinaries(copyDir, account);
  if ('complaint' in inCopy) throw binariesUnusable(copyDir, inCopy.complaint);
  return inCopy;
}

async function resolvePackage(): Promise<{ packageDir: string; version: string }> {
  const platform = `${process.platform}-${process.arch}`;
  try {
    // Loading the package itself would install its exit hook, which stops servers before our own shutdown does.
    const fromPackage = createRequire(createRequire(import.meta.url).resolve('embedded-postgres'));
    const packageDir = dirname(dirname(fromPackage.resolve(`@embedded-postgres/${platform}`)));
    const { version } = JSON.parse(await readFile(join(packageDir, 'package.json'), 'utf8')) as { version: string };
    return { packageDir, version };
  } catch (error) {
    throw new EmbeddedPostgresError(
      'UNSUPPORTED_PLATFORM',
      `No embedded PostgreSQL is installed for ${platform}. Run npm ci on this machine with optional packages allowed, or set DATABASE_URL.`,
      { cause: error },
    );
  }
}

/** Asks the server's program for its version; any other output is the complaint. */
async function tryBinaries(
  nativeDir: string,
  account: ServerAccount,
): Promise<PostgresBinaries | { complaint: string }> {
  const postgres = join(nativeDir, 'bin', 'postgres');
  const { exitCode, output } = await runAs(account, postgres, ['--version']);
  const majorVersion = /\(PostgreSQL\) ([0-9]+)/.exec(output)?.[1];
  if (exitCode !== 0 || majorVersion === undefined) return { complaint: output || `exit code ${exitCode}` };
  return { initdb: join(nativeDir, 'bin', 'initdb'), postgres, majorVersion };
}

/** Fills a folder beside the target and renames it: a concurrent or interrupted start never sees half a copy. */
async function copyForEveryone(nativeDir: string, copyDir: string): Promise<void> {
  const draft = join(await openFolder(dirname(copyDir)), `draft-${randomUUID()}`);
  try {
    await cp(nativeDir, draft, { recursive: true, verbatimSymlinks: true });
    await runAs(undefined, 'chmod', ['-R', 'a+rX', draft]);
    await rename(draft, copyDir);
  } catch (error) {
    // Another start was faster.
    if (!(await exists(copyDir))) throw error;
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
}

function binariesUnusable(nativeDir: string, complaint: string): EmbeddedPostgresError {
  return new EmbeddedPostgresError(
    'BINARIES_UNUSABLE',
    `PostgreSQL's programs in ${nativeDir} do not run here: ${complaint}. Run npm ci on this machine, or set DATABASE_URL.`,
  );
}
