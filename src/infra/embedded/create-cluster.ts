import { chown, mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { EmbeddedPostgresError } from './embedded-postgres-error.ts';
import type { WriteLog } from './embedded-postgres-log.ts';
import type { PostgresBinaries } from './provide-binaries.ts';
import { runCommand, type ServerUser } from './run-command.ts';

/** The superuser of every embedded cluster. */
export const SUPERUSER = 'postgres';

/**
 * Creates an empty cluster: UTF8, Unicode case rules that do not depend on the operating system, passwords
 * only. It is built beside its place and renamed, so an interrupted creation leaves nothing that looks done.
 * @throws EmbeddedPostgresError `INITDB_FAILED`
 */
export async function createCluster(options: {
  clusterDir: string;
  password: string;
  binaries: PostgresBinaries;
  user: ServerUser | undefined;
  log: WriteLog;
}): Promise<void> {
  const { clusterDir, user } = options;
  const draft = `${clusterDir}.draft`;
  options.log('info', `creating the database cluster ${clusterDir}`);
  await rm(draft, { recursive: true, force: true });
  await mkdir(draft, { mode: 0o700 });
  const passwordFile = join(draft, 'password');
  await writeFile(passwordFile, options.password, { mode: 0o600 });
  if (user !== undefined) for (const path of [draft, passwordFile]) await chown(path, user.uid, user.gid);
  const newCluster = join(draft, 'cluster');
  const { exitCode, output } = await runCommand(options.binaries.initdb, initdbArguments(newCluster, passwordFile), {
    user,
  });
  if (exitCode !== 0) {
    await rm(draft, { recursive: true, force: true });
    throw new EmbeddedPostgresError(
      'INITDB_FAILED',
      `PostgreSQL could not create its cluster ${clusterDir}: ${output.split('\n').slice(-5).join(' ')}. Clear the way for it, choose another DATA_DIR, or set DATABASE_URL.`,
    );
  }
  await rename(newCluster, clusterDir);
  await rm(draft, { recursive: true, force: true });
  options.log('info', 'database cluster created');
}

function initdbArguments(pgdata: string, passwordFile: string): string[] {
  return [
    `--pgdata=${pgdata}`,
    `--username=${SUPERUSER}`,
    `--pwfile=${passwordFile}`,
    '--auth=scram-sha-256',
    '--encoding=UTF8',
    '--locale=C',
    '--locale-provider=builtin',
    '--builtin-locale=C.UTF-8',
    '--no-instructions',
  ];
}
