import { spawn } from 'node:child_process';

/** The account that PostgreSQL's programs run under; absent means the account of this process. */
export interface ServerUser {
  name: string;
  uid: number;
  gid: number;
}

/**
 * The environment of PostgreSQL's programs: no variable of the service reaches them, since its secrets
 * would show in the process list of another account. Messages stay in English, so they can be recognised.
 */
export const PROGRAM_ENVIRONMENT = { PATH: '/usr/local/bin:/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC' };

/** How a finished program ended. `output` holds both of its streams, trimmed. */
export interface CommandResult {
  exitCode: number | null;
  output: string;
}

/**
 * Runs a program to its end, in the root folder, since the other account may not enter the current one.
 * A program that cannot be started at all gives exit code null and the reason as its output.
 * @param input what the program reads from its standard input
 */
export function runCommand(
  file: string,
  args: readonly string[],
  options: { user?: ServerUser | undefined; input?: string } = {},
): Promise<CommandResult> {
  return new Promise<CommandResult>((resolve, reject) => {
    const child = spawn(file, args, {
      cwd: '/',
      env: PROGRAM_ENVIRONMENT,
      stdio: ['pipe', 'pipe', 'pipe'],
      ...accountOf(options.user),
    });
    const chunks: Buffer[] = [];
    child.stdout.on('data', (chunk: Buffer) => chunks.push(chunk));
    child.stderr.on('data', (chunk: Buffer) => chunks.push(chunk));
    child.on('error', reject);
    child.on('close', (exitCode) => resolve({ exitCode, output: Buffer.concat(chunks).toString('utf8').trim() }));
    child.stdin.on('error', (error) => chunks.push(Buffer.from(`standard input: ${error.message}\n`)));
    child.stdin.end(options.input ?? '');
  }).catch((error: Error) => ({ exitCode: null, output: error.message }));
}

/** The part of spawn's options that names the account. */
export function accountOf(user: ServerUser | undefined): { uid?: number; gid?: number } {
  return user === undefined ? {} : { uid: user.uid, gid: user.gid };
}
