import { readFile, stat } from 'node:fs/promises';
import { EmbeddedPostgresError } from './embedded-postgres-error.ts';
import { runCommand, type ServerUser } from './run-command.ts';

const UNPRIVILEGED_NAMES = ['postgres', 'nobody'];

/**
 * Chooses the account that the server runs under. PostgreSQL refuses to run as root, so root hands it to
 * whoever owns the folders already (so that the same project works with and without sudo), else to
 * `postgres` or `nobody`. No account is ever created.
 * @param folders the cluster and the data folder; those that do not exist are passed over
 * @returns undefined when this process's own account serves
 * @throws EmbeddedPostgresError `NO_SERVER_USER`
 */
export async function chooseServerUser(folders: readonly string[]): Promise<ServerUser | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  const accounts = parseAccounts(await readFile('/etc/passwd', 'utf8').catch(() => ''));
  for (const folder of folders) {
    const owner = await readOwner(folder);
    const account = accounts.find(({ uid }) => uid === owner);
    if (account !== undefined && account.uid !== 0) return account;
  }
  for (const name of UNPRIVILEGED_NAMES) {
    const account = accounts.find((candidate) => candidate.name === name);
    if (account !== undefined && account.uid !== 0) return account;
  }
  throw new EmbeddedPostgresError(
    'NO_SERVER_USER',
    'PostgreSQL does not run as root, and this system has neither a user postgres nor a user nobody to run it as. Start the service as an ordinary user, or set DATABASE_URL.',
  );
}

/** Whether the account can enter a folder, tried for real, since more than mode bits decides that. */
export async function canEnter(folder: string, user: ServerUser | undefined): Promise<boolean> {
  const { exitCode } = await runCommand('/bin/sh', ['-c', 'cd -- "$1"', 'sh', folder], { user });
  return exitCode === 0;
}

function parseAccounts(passwd: string): ServerUser[] {
  return passwd
    .split('\n')
    .map((line) => line.split(':'))
    .filter((fields) => fields.length >= 4)
    .map(([name = '', , uid, gid]) => ({ name, uid: Number(uid), gid: Number(gid) }));
}

async function readOwner(folder: string): Promise<number | undefined> {
  try {
    return (await stat(folder)).uid;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}
