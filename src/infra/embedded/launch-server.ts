import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { createInterface } from 'node:readline';
import { EmbeddedPostgresError } from './embedded-postgres-error.ts';
import { forwardServerLine, LOG_LINE_PREFIX, type WriteLog } from './embedded-postgres-log.ts';
import type { PostgresBinaries } from './provide-binaries.ts';
import { accountOf, PROGRAM_ENVIRONMENT, type ServerUser } from './run-command.ts';

/** A server that accepts connections. */
export interface RunningServer {
  pid: number;
  port: number;
  process: ChildProcess;
  /** Settles when the process has ended, with the reason. */
  ended: Promise<string>;
}

const PORT_ATTEMPTS = 5;
const KEPT_LINES = 12;

export interface LaunchOptions {
  clusterDir: string;
  binaries: PostgresBinaries;
  user: ServerUser | undefined;
  postgresFlags: readonly string[];
  log: WriteLog;
}

/**
 * Starts the server on a free port of 127.0.0.1, in a session of its own, so that Ctrl-C in the terminal
 * reaches the service only, and waits until it accepts connections (after a crash: has recovered).
 * @throws EmbeddedPostgresError `START_FAILED`, quoting the server
 */
export async function launchServer(options: LaunchOptions): Promise<RunningServer> {
  for (let attempt = 1; ; attempt += 1) {
    const outcome = await launchOnce(options, await findFreePort());
    if (!('lastLines' in outcome)) return outcome;
    // Between the search and the start somebody else may take the port.
    const portTaken = outcome.lastLines.some((line) => line.includes('Address already in use'));
    if (portTaken && attempt < PORT_ATTEMPTS) continue;
    throw new EmbeddedPostgresError(
      'START_FAILED',
      `PostgreSQL did not start with ${options.clusterDir} (${outcome.reason}): ${outcome.lastLines.join(' / ')}. Clear the way for it, or set DATABASE_URL.`,
    );
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

async function describeEnd(child: ChildProcess): Promise<string> {
  return new Promise((resolve) => {
    child.on('error', (error) => resolve(error.message));
    // 'close' and not 'exit': by then the last lines of its log have been read.
    child.on('close', (code, signal) => resolve(signal === null ? `exit code ${code}` : `signal ${signal}`));
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
