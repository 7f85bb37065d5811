import { randomUUID } from 'node:crypto';
import { chmod, cp, lstat, readdir, readFile, rename, rm, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { basename, dirname, join, relative } from 'node:path';
import { EmbeddedPostgresError } from './embedded-postgres-error.ts';
import type { WriteLog } from './embedded-postgres-log.ts';
import { createOpenFolders, exists } from './folders.ts';
import { runCommand, type ServerUser } from './run-command.ts';

/** PostgreSQL's programs, as absolute paths. */
export interface PostgresBinaries {
  initdb: string;
  postgres: string;
  /** As a cluster notes it in PG_VERSION, e.g. "18". */
  majorVersion: string;
}

/**
 * Finds programs that the server's account can run: those of the package `embedded-postgres`, or, where
 * it cannot reach them, a copy of them under `sharedDir` (60 MB, made once for each version).
 * @throws EmbeddedPostgresError `UNSUPPORTED_PLATFORM` or `BINARIES_UNUSABLE`
 */
export async function provideBinaries(
  user: ServerUser | undefined,
  sharedDir: string,
  log: WriteLog,
): Promise<PostgresBinaries> {
  const source = await resolvePackage();
  await restoreSymlinks(source.nativeDir);
  const inPackage = await tryBinaries(source.nativeDir, user);
  if ('binaries' in inPackage) return inPackage.binaries;
  if (user === undefined) throw binariesUnusable(source.nativeDir, inPackage.complaint);

  const copyDir = join(sharedDir, 'binaries', `${source.version}-${process.platform}-${process.arch}`);
  if (!(await exists(copyDir))) await copyBinaries(source.nativeDir, copyDir, user, log);
  const inCopy = await tryBinaries(copyDir, user);
  if ('complaint' in inCopy) throw binariesUnusable(copyDir, inCopy.complaint);
  return inCopy.binaries;
}

async function resolvePackage(): Promise<{ nativeDir: string; version: string }> {
  const platform = `${process.platform}-${process.arch}`;
  try {
    // Loading the package itself would install its exit hook, which stops servers before our own shutdown does.
    const fromPackage = createRequire(createRequire(import.meta.url).resolve('embedded-postgres'));
    const packageDir = dirname(dirname(fromPackage.resolve(`@embedded-postgres/${platform}`)));
    const { version } = JSON.parse(await readFile(join(packageDir, 'package.json'), 'utf8')) as { version: string };
    return { nativeDir: join(packageDir, 'native'), version };
  } catch (error) {
    throw new EmbeddedPostgresError(
      'UNSUPPORTED_PLATFORM',
      `No embedded PostgreSQL is installed for ${platform}. Run npm ci on this machine with optional packages allowed, or set DATABASE_URL.`,
      { cause: error },
    );
  }
}

/** Creates the library links that the package's install script would have made, where scripts were not allowed. */
async function restoreSymlinks(nativeDir: string): Promise<void> {
  const links = JSON.parse(await readFile(join(nativeDir, 'pg-symlinks.json'), 'utf8')) as {
    source: string;
    target: string;
  }[];
  for (const { source, target } of links) {
    const path = join(nativeDir, '..', target);
    if (await linkExists(path)) continue;
    await symlink(relative(dirname(target), source), path).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw binariesUnusable(nativeDir, `its link ${target} is missing: ${error.message}`);
    });
  }
}

async function linkExists(path: string): Promise<boolean> {
  try {
    await lstat(path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
    throw error;
  }
}

/** Runs the server's program for its version; what it says instead is the complaint. */
async function tryBinaries(
  nativeDir: string,
  user: ServerUser | undefined,
): Promise<{ binaries: PostgresBinaries } | { complaint: string }> {
  const initdb = join(nativeDir, 'bin', 'initdb');
  const postgres = join(nativeDir, 'bin', 'postgres');
  const { exitCode, output } = await runCommand(postgres, ['--version'], { user });
  const majorVersion = /\(PostgreSQL\) ([0-9]+)/.exec(output)?.[1];
  if (exitCode !== 0 || majorVersion === undefined) return { complaint: output || `exit code ${exitCode}` };
  return { binaries: { initdb, postgres, majorVersion } };
}

/** Fills a folder beside the target and renames it: a concurrent or interrupted start never sees half a copy. */
async function copyBinaries(nativeDir: string, copyDir: string, user: ServerUser, log: WriteLog): Promise<void> {
  log('info', `${nativeDir} is closed to the user ${user.name}; copying PostgreSQL's programs (60 MB) to ${copyDir}`);
  await createOpenFolders(dirname(dirname(copyDir)), dirname(copyDir));
  const draft = join(dirname(copyDir), `draft-${randomUUID()}`);
  try {
    await cp(nativeDir, draft, { recursive: true, verbatimSymlinks: true });
    await openToEveryone(draft);
    await rename(draft, copyDir);
  } catch (error) {
    await rm(draft, { recursive: true, force: true });
    // Another start was faster.
    if (!['ENOTEMPTY', 'EEXIST'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
  }
  log('info', 'PostgreSQL copied');
}

async function openToEveryone(folder: string): Promise<void> {
  await chmod(folder, 0o755);
  for (const entry of await readdir(folder, { withFileTypes: true, recursive: true })) {
    const executable = entry.isDirectory() || basename(entry.parentPath) === 'bin';
    if (!entry.isSymbolicLink()) await chmod(join(entry.parentPath, entry.name), executable ? 0o755 : 0o644);
  }
}

function binariesUnusable(nativeDir: string, complaint: string): EmbeddedPostgresError {
  return new EmbeddedPostgresError(
    'BINARIES_UNUSABLE',
    `PostgreSQL's programs in ${nativeDir} do not run here: ${complaint}. Run npm ci on this machine, or set DATABASE_URL.`,
  );
}
