import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { basename, join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { findFreePort } from '../free-port.ts';
import type { ClusterLocation } from './cluster.ts';
import { EmbeddedPostgresError } from './embedded-postgres-error.ts';
import { forwardServerLine, LOG_LINE_PREFIX, type WriteLog } from './embedded-postgres-log.ts';
import { spawnOptions } from './server-account.ts';

/** A server that accepts connections. */
export interface RunningServer {
  pid: number;
  port: number;
  /** Settles with the reason when the process has ended. */
  ended: Promise<string>;
  /** Stops it and waits until it has ended. */
  stop(): Promise<void>;
}

export interface LaunchOptions extends ClusterLocation {
  /** The server's program. */
  postgres: string;
  flags: readonly string[];
  log: WriteLog;
}

/**
 * Becomes the server, beside a watch that stops it when the pipe closes without a message: when this process has
 * ended, however it did. The watch is not the server's child, since PostgreSQL treats the exit of an unknown child as a crash.
 */
const WATCHED_START = '((read _ <&3 || kill -INT $$) >/dev/null 2>&1 &); exec "$@" 3<&-';
/** Temporary reasons not to start: the port or the cluster was taken in the meantime, or old sessions are still ending. */
const PASSING_COMPLAINTS = [
  'Address already in use',
  'pre-existing shared memory block',
  'lock file "postmaster.pid" already exists',
];
const ATTEMPTS = 10;
const PAUSE_MS = 500;
const KEPT_LINES = 12;
/** Wait for sessions to end, end them, end at once (the next start recovers). */
const STOP_STEPS = [
  { signal: 'SIGTERM', patienceMs: 1000 },
  { signal: 'SIGINT', patienceMs: 15_000 },
  { signal: 'SIGQUIT', patienceMs: 0 },
] as const;
/** How long the server of a killed process may take to notice, and to stop. */
const STOPPING_MS = 30_000;
const NOTICE_MS = 1000;

/**
 * Starts the server on a free port of 127.0.0.1, in a session of its own, so that Ctrl-C in the terminal
 * reaches the service only, and waits until it accepts connections (after a crash: has recovered).
 * @throws EmbeddedPostgresError `ALREADY_RUNNING`, or `START_FAILED`, quoting the server
 */
export async function launchServer(options: LaunchOptions): Promise<RunningServer> {
  for (let attempt = 1; ; attempt += 1) {
    await untilUnlocked(options.clusterDir, options.log);
    const outcome = await launchOnce(options, await findFreePort(0, '127.0.0.1'));
    if ('pid' in outcome) return outcome;
    const said = outcome.lastLines.join(' / ');
    if (attempt === ATTEMPTS || !PASSING_COMPLAINTS.some((complaint) => said.includes(complaint))) {
      throw new EmbeddedPostgresError(
        'START_FAILED',
        `PostgreSQL did not start with ${options.clusterDir} (${outcome.reason}): ${said}. Remove the cause that it names, or set DATABASE_URL.`,
      );
    }
    await delay(PAUSE_MS);
  }
}

/**
 * Waits for the server of a killed process to stop.
 * @throws EmbeddedPostgresError `ALREADY_RUNNING` when a server keeps running on the cluster
 */
export async function untilUnlocked(clusterDir: string, log: WriteLog): Promise<void> {
  const lockFile = join(clusterDir, 'postmaster.pid');
  for (let waitedMs = 0; ; waitedMs += PAUSE_MS) {
    const lock = readIfThere(lockFile);
    const pid = Number(lock?.split('\n')[0]);
    if (lock === undefined || !Number.isInteger(pid)) return;
    if (readProgram(pid) !== 'postgres') {
      // The number may now belong to another program. PostgreSQL treats its parent's number as out of date, and
      // still checks for sessions that outlived their server.
      writeFileSync(lockFile, lock.replace(/^-?\d+/, String(process.pid)));
      return;
    }
    const isStopping = lock.split('\n')[7]?.trim() === 'stopping';
    if (waitedMs >= (isStopping ? STOPPING_MS : NOTICE_MS)) {
      throw new EmbeddedPostgresError(
        'ALREADY_RUNNING',
        `PostgreSQL (process ${pid}) already runs on ${clusterDir}, for another process of the service. Stop that first, give this one a DATA_DIR of its own, or set DATABASE_URL to one server for both. If no service uses it any more, end it with: kill -INT ${pid}`,
      );
    }
    if (waitedMs === 0) log('info', `waiting for PostgreSQL (process ${pid}) to stop`);
    await delay(PAUSE_MS);
  }
}

async function launchOnce(
  { clusterDir, account, postgres, flags, log }: LaunchOptions,
  port: number,
): Promise<RunningServer | { reason: string; lastLines: string[] }> {
  const child = spawn(
    '/bin/sh',
    ['-c', WATCHED_START, 'sh', postgres, '-D', clusterDir, ...serverSettings(port), ...flags],
    { ...spawnOptions(account), stdio: ['ignore', 'ignore', 'pipe', 'pipe'], detached: true },
  );
  const ended = describeEnd(child);
  const lastLines: string[] = [];
  const ready = new Promise<'ready'>((resolve) => {
    createInterface({ input: child.stderr as NodeJS.ReadableStream }).on('line', (line) => {
      forwardServerLine(line, log);
      lastLines.push(line.replace(/^[^|]*\|/, '').trim());
      if (lastLines.length > KEPT_LINES) lastLines.shift();
      if (line.endsWith('database system is ready to accept connections')) resolve('ready');
    });
  });
  const first = await Promise.race([ready, ended]);
  if (first !== 'ready' || child.pid === undefined) return { reason: first, lastLines };
  const stop = async () => {
    for (const { signal, patienceMs } of STOP_STEPS) {
      child.kill(signal);
      const isOver = await Promise.race([ended.then(() => true), delay(patienceMs, false, { ref: false })]);
      if (isOver) return;
      if (signal === 'SIGINT') log('warn', `PostgreSQL has not ended ${patienceMs / 1000} s after ${signal}`);
    }
    await ended;
  };
  return { pid: child.pid, port, ended, stop };
}

function serverSettings(port: number): string[] {
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
  return Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
}

/** Waits for the end of the process and of its log, which sessions that outlive it may hold open a little longer. */
function describeEnd(child: ChildProcess): Promise<string> {
  return new Promise((resolve) => {
    const watch = child.stdio[3] as Socket;
    // The watch may already have ended; there is nothing left for it to do.
    watch.on('error', () => undefined);
    child.once('error', (error) => resolve(error.message));
    child.once('exit', (code, signal) => {
      watch.end('ended\n');
      watch.destroySoon();
      const reason = signal === null ? `exit code ${code}` : `signal ${signal}`;
      const logDeadline = setTimeout(() => child.stderr?.destroy(), PAUSE_MS);
      child.once('close', () => {
        clearTimeout(logDeadline);
        resolve(reason);
      });
    });
  });
}

/** The name of the program that a process runs; undefined when there is no such process. */
function readProgram(pid: number): string | undefined {
  if (process.platform === 'linux') return readIfThere(`/proc/${pid}/comm`)?.trim();
  try {
    return basename(execFileSync('ps', ['-p', String(pid), '-o', 'comm='], { encoding: 'utf8' }).trim());
  } catch (error) {
    // ps ends with 1 when there is no such process.
    if ((error as { status?: number }).status === 1) return undefined;
    throw error;
  }
}

function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) return undefined;
    throw error;
  }
}
