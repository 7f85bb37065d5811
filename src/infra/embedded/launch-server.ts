import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { EmbeddedPostgresError } from './embedded-postgres-error.ts';
import { forwardServerLine, LOG_LINE_PREFIX, type WriteLog } from './embedded-postgres-log.ts';
import type { PostgresBinaries } from './provide-binaries.ts';
import { accountOf, PROGRAM_ENVIRONMENT, type ServerUser } from './run-command.ts';
import { serverTitle } from './stop-server.ts';

/** A server that accepts connections. */
export interface RunningServer {
  pid: number;
  port: number;
  process: ChildProcess;
  /** Settles with the reason when the process has ended. */
  ended: Promise<string>;
}

export interface LaunchOptions {
  clusterDir: string;
  binaries: PostgresBinaries;
  user: ServerUser | undefined;
  postgresFlags: readonly string[];
  log: WriteLog;
}

/** Reasons not to start that pass by themselves: the port was taken in the meantime, or old sessions still end. */
const PASSING_COMPLAINTS = ['Address already in use', 'pre-existing shared memory block'];
const ATTEMPTS = 10;
const PAUSE_MS = 500;
const KEPT_LINES = 12;

/**
 * Starts the server on a free port of 127.0.0.1, in a session of its own, so that Ctrl-C in the terminal
 * reaches the service only, and waits until it accepts connections (after a crash: has recovered).
 * @throws EmbeddedPostgresError `START_FAILED`, quoting the server
 */
export async function launchServer(options: LaunchOptions): Promise<RunningServer> {
  for (let attempt = 1; ; attempt += 1) {
    const outcome = await launchOnce(options, await findFreePort());
    if ('pid' in outcome) return outcome;
    const { reason, lastLines } = outcome;
    const passes = lastLines.some((line) => PASSING_COMPLAINTS.some((complaint) => line.includes(complaint)));
    if (!passes || attempt === ATTEMPTS) {
      throw new EmbeddedPostgresError(
        'START_FAILED',
        `PostgreSQL did not start with ${options.clusterDir} (${reason}): ${lastLines.join(' / ')}. Remove the cause that it names, or set DATABASE_URL.`,
      );
    }
    await delay(PAUSE_MS);
  }
}

async function launchOnce(
  options: LaunchOptions,
  port: number,
): Promise<RunningServer | { reason: string; lastLines: string[] }> {
  const child = spawn(options.binaries.postgres, serverArguments(options, port), {
    cwd: '/',
    env: PROGRAM_ENVIRONMENT,
    stdio: ['ignore', 'ignore', 'pipe'],
    detached: true,
    ...accountOf(options.user),
  });
  const ended = describeEnd(child);
  const lastLines: string[] = [];
  const ready = new Promise<'ready'>((resolve) => {
    createInterface({ input: child.stderr }).on('line', (line) => {
      forwardServerLine(line, options.log);
      lastLines.push(line.replace(/^[^|]*\|/, '').trim());
      if (lastLines.length > KEPT_LINES) lastLines.shift();
      if (line.endsWith('database system is ready to accept connections')) resolve('ready');
    });
  });
  const first = await Promise.race([ready, ended]);
  if (first !== 'ready' || child.pid === undefined) return { reason: first, lastLines };
  return { pid: child.pid, port, process: child, ended };
}

function serverArguments(options: LaunchOptions, port: number): string[] {
  const settings = {
    port,
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    cluster_name: serverTitle(options.clusterDir),
    max_connections: 200,
    shared_buffers: '128MB',
    timezone: 'UTC',
    log_timezone: 'UTC',
    fsync: 'on',
    logging_collector: 'off',
    log_destination: 'stderr',
    log_line_prefix: LOG_LINE_PREFIX,
    // Statements and rows carry athletes' data and stay out of the log.
    log_error_verbosity: 'terse',
    log_min_error_statement: 'panic',
  };
  const flags = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  return ['-D', options.clusterDir, ...flags, ...options.postgresFlags];
}

/** Waits for the end of the process and of its log, which sessions that outlive it may hold open a little longer. */
function describeEnd(child: ChildProcess): Promise<string> {
  return new Promise((resolve) => {
    child.once('error', (error) => resolve(error.message));
    child.once('exit', (code, signal) => {
      const reason = signal === null ? `exit code ${code}` : `signal ${signal}`;
      const logDeadline = setTimeout(() => child.stderr?.destroy(), PAUSE_MS);
      child.once('close', () => {
        clearTimeout(logDeadline);
        resolve(reason);
      });
    });
  });
}

async function findFreePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  if (address === null || typeof address === 'string') throw new TypeError('A TCP server has an address and a port');
  return address.port;
}
