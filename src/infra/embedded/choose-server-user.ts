import { access, constants, readFile, stat } from 'node:fs/promises';
import { EmbeddedPostgresError } from './embedded-postgres-error.ts';
import { exists } from './folders.ts';
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
  const accounts = parseAccounts((await exists('/etc/passwd')) ? await readFile('/etc/passwd', 'utf8') : '');
  const owners = await Promise.all(folders.map(readOwner));
  const user =
    owners.map((owner) => accounts.find(({ uid }) => uid === owner)).find((account) => account !== undefined) ??
    UNPRIVILEGED_NAMES.map((wanted) => accounts.find(({ name }) => name === wanted)).find(
      (account) => account !== undefined,
    );
  if (user === undefined) throw noServerUser('this system has neither a user postgres nor a user nobody to run it as');
  const { exitCode, output } = await runCommand('/bin/sh', ['-c', 'exit 0'], { user });
  if (exitCode !== 0) throw noServerUser(`this process may not switch to the user ${user.name} (${output})`);
  return user;
}

/** Whether the account can enter a folder, tried for real, since more than mode bits decides that. */
export async function canEnter(folder: string, user: ServerUser | undefined): Promise<boolean> {
  if (user !== undefined) {
    return (await runCommand('/bin/sh', ['-c', 'cd -- "$1"', 'sh', folder], { user })).exitCode === 0;
  }
  try {
    await access(folder, constants.R_OK | constants.W_OK | constants.X_OK);
    return true;
  } catch (error) {
    if (['EACCES', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? '')) return false;
    throw error;
  }
}

/** The accounts of the system, without those that are root. */
function parseAccounts(passwd: string): ServerUser[] {
  return passwd
    .split('\n')
    .map((line) => line.split(':'))
    .filter((fields) => fields.length >= 4 && fields[2] !== '0')
    .map(([name = '', , uid, gid]) => ({ name, uid: Number(uid), gid: Number(gid) }));
}

async function readOwner(folder: string): Promise<number | undefined> {
  return (await exists(folder)) ? (await stat(folder)).uid : undefined;
}

function noServerUser(reason: string): EmbeddedPostgresError {
  return new EmbeddedPostgresError(
    'NO_SERVER_USER',
    `PostgreSQL does not run as root, and ${reason}. Start the service as an ordinary user, or set DATABASE_URL.`,
  );
}
