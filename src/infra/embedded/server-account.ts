import { spawn } from 'node:child_process';
import { access, constants, readFile, stat } from 'node:fs/promises';
import { EmbeddedPostgresError } from './embedded-postgres-error.ts';
import { exists } from './folders.ts';

/** The account that PostgreSQL's programs run under; undefined: the account of this process. */
export type ServerAccount = { name: string; uid: number; gid: number } | undefined;

/** How a program ended: its exit code, null when it could not be started, and what it printed on both streams. */
export interface CommandResult {
  exitCode: number | null;
  output: string;
}

/**
 * Chooses the account that the server runs under. PostgreSQL refuses to run as root, so root hands it to the owner
 * of the folders (the same project then works with and without sudo), else to `postgres` or `nobody`.
 * @param folders the cluster and the data folder; missing ones are skipped
 * @throws EmbeddedPostgresError `NO_SERVER_USER`
 */
export async function chooseServerAccount(folders: readonly string[]): Promise<ServerAccount> {
  if (process.getuid?.() !== 0) return undefined;
  const accounts = (await readFile('/etc/passwd', 'utf8'))
    .split('\n')
    .map((line) => line.split(':'))
    .map(([name = '', , uid, gid]) => ({ name, uid: Number(uid), gid: Number(gid) }))
    .filter(({ uid, gid }) => uid > 0 && gid >= 0);
  const owners = await Promise.all(folders.map(async (path) => ((await exists(path)) ? (await stat(path)).uid : 0)));
  const account = [
    ...owners.map((owner) => accounts.find(({ uid }) => uid === owner)),
    ...['postgres', 'nobody'].map((wanted) => accounts.find(({ name }) => name === wanted)),
  ].find((candidate) => candidate !== undefined);
  if (account !== undefined && (await canEnter('/', account))) return account;
  throw new EmbeddedPostgresError(
    'NO_SERVER_USER',
    `PostgreSQL does not run as root, and ${account ? `this process may not switch to the user ${account.name}` : 'this system has neither a user postgres nor a user nobody to run it as'}. Start the service as an ordinary user, or set DATABASE_URL.`,
  );
}

/** Whether the account can enter a folder; it tries, since more than mode bits decides that. */
export async function canEnter(folder: string, account: ServerAccount): Promise<boolean> {
  if (account !== undefined) {
    return (await runAs(account, '/bin/sh', ['-c', 'cd -- "$1"', 'sh', folder])).exitCode === 0;
  }
  return access(folder, constants.R_OK | constants.W_OK | constants.X_OK).then(
    () => true,
    () => false,
  );
}

/**
 * What spawn needs to run a program under the account. It starts in the root folder, since the account may not enter
 * the current one. No variable of the service reaches it: its secrets would show in another account's process list.
 * Messages stay in English, so that they can be recognised.
 */
export function spawnOptions(account: ServerAccount) {
  const env = { PATH: '/usr/local/bin:/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC' };
  return { cwd: '/', env, ...(account && { uid: account.uid, gid: account.gid }) };
}

/** Runs a program until it ends. @param input its standard input */
export function runAs(
  account: ServerAccount,
  file: string,
  args: readonly string[],
  input = '',
): Promise<CommandResult> {
  return new Promise((resolve) => {
    const child = spawn(file, args, spawnOptions(account));
    let output = '';
    const keep = (chunk: Buffer | string) => {
      output += chunk;
    };
    child.stdout.on('data', keep);
    child.stderr.on('data', keep);
    child.on('error', (error) => resolve({ exitCode: null, output: error.message }));
    child.on('close', (exitCode) => resolve({ exitCode, output: output.trim() }));
    child.stdin.on('error', (error) => keep(`standard input: ${error.message}\n`));
    child.stdin.end(input);
  });
}
