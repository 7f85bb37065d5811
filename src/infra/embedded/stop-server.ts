import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { EmbeddedPostgresError } from './embedded-postgres-error.ts';
import type { WriteLog } from './embedded-postgres-log.ts';
import {
  findProcessesIn,
  identifyProcess,
  isRunning,
  type ProcessIdentity,
  readCommandLine,
} from './process-identity.ts';

const FAST_SHUTDOWN_MS = 30_000;
const IMMEDIATE_SHUTDOWN_MS = 5_000;
const POLL_MS = 50;

/**
 * Stops a server: fast (sessions are ended, a checkpoint written), after 30 s at once (the next start
 * recovers), and 5 s later by force.
 * @throws EmbeddedPostgresError `STOP_FAILED` when the process survives even that
 */
export async function stopServer(server: ProcessIdentity, log: WriteLog): Promise<void> {
  const steps = [
    { signal: 'SIGINT', patienceMs: FAST_SHUTDOWN_MS },
    { signal: 'SIGQUIT', patienceMs: IMMEDIATE_SHUTDOWN_MS },
    { signal: 'SIGKILL', patienceMs: IMMEDIATE_SHUTDOWN_MS },
  ] as const;
  for (const { signal, patienceMs } of steps) {
    if (!sendSignal(server, signal)) return;
    if (await waitForEnd(server, patienceMs)) return;
    log('warn', `PostgreSQL (process ${server.pid}) has not ended ${patienceMs / 1000} s after ${signal}`);
  }
  throw new EmbeddedPostgresError(
    'STOP_FAILED',
    `The PostgreSQL process ${server.pid} cannot be stopped. Kill it by hand.`,
  );
}

/**
 * Stops the server that a dead process left behind in this cluster, and sessions that outlived their
 * server. Only to be called with the claim on the cluster.
 */
export async function stopOrphans(clusterDir: string, log: WriteLog): Promise<void> {
  const server = await findServerOf(clusterDir);
  if (server !== undefined) {
    log(
      'warn',
      `stopping PostgreSQL (process ${server.pid}), left running by a service that ended without stopping it`,
    );
    await stopServer(server, log);
  }
  for (const pid of findProcessesIn(clusterDir)) {
    const session = identifyProcess(pid);
    if (session === undefined || !readCommandLine(pid).startsWith('postgres:')) continue;
    log('warn', `ending the PostgreSQL session process ${pid}, which outlived its server`);
    sendSignal(session, 'SIGQUIT');
    if (!(await waitForEnd(session, IMMEDIATE_SHUTDOWN_MS))) sendSignal(session, 'SIGKILL');
  }
}

/** The server whose number stands in postmaster.pid, if that number still belongs to a server of this cluster. */
async function findServerOf(clusterDir: string): Promise<ProcessIdentity | undefined> {
  const firstLine = await readFile(join(clusterDir, 'postmaster.pid'), 'utf8').then(
    (text) => text.split('\n')[0] ?? '',
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return '';
      throw error;
    },
  );
  const pid = Number(firstLine);
  const server = Number.isInteger(pid) && pid > 0 ? identifyProcess(pid) : undefined;
  return server !== undefined && readCommandLine(pid).includes(` -D ${clusterDir} `) ? server : undefined;
}

/** Sends a signal, or returns false when the process has ended. */
function sendSignal(target: ProcessIdentity, signal: NodeJS.Signals): boolean {
  if (!isRunning(target)) return false;
  try {
    process.kill(target.pid, signal);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false;
    throw error;
  }
}

async function waitForEnd(target: ProcessIdentity, patienceMs: number): Promise<boolean> {
  const deadline = performance.now() + patienceMs;
  while (isRunning(target)) {
    if (performance.now() > deadline) return false;
    await delay(POLL_MS);
  }
  return true;
}
