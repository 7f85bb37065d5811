import { createHash } from 'node:crypto';
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { EmbeddedPostgresError } from './embedded-postgres-error.ts';
import type { WriteLog } from './embedded-postgres-log.ts';
import { exists } from './folders.ts';
import {
  findProcesses,
  identifyProcess,
  isRunning,
  type ProcessIdentity,
  readCommandLine,
} from './process-identity.ts';

const FAST_SHUTDOWN_MS = 30_000;
const IMMEDIATE_SHUTDOWN_MS = 5_000;
const POLL_MS = 20;

/** The name that a cluster's sessions show in the process list: they have no other trace of their cluster there. */
export function serverTitle(clusterDir: string): string {
  return `activity-sync-${createHash('sha256').update(clusterDir).digest('hex').slice(0, 12)}`;
}

/**
 * Stops a server: fast (sessions are ended, a checkpoint written), after 30 s at once (the next start
 * recovers), and 5 s later by force.
 * @throws EmbeddedPostgresError `STOP_FAILED` when the process survives even that, or is not ours to stop
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
  throw stopFailed(server, 'it survived SIGKILL');
}

/**
 * Stops the server that a dead process left behind in this cluster, and sessions that outlived their
 * server, and removes a note of a server whose number belongs to somebody else by now. Only to be called
 * with the claim on the cluster.
 */
export async function stopOrphans(clusterDir: string, log: WriteLog): Promise<void> {
  const pid = await readServerNumber(clusterDir);
  const noted = pid === undefined ? undefined : identifyProcess(pid);
  if (noted !== undefined && readCommandLine(noted.pid).includes(` -D ${clusterDir} `)) {
    log('warn', `stopping PostgreSQL (process ${noted.pid}), left behind by a service that was killed`);
    await stopServer(noted, log);
  } else if (noted !== undefined) {
    log(
      'info',
      `process ${noted.pid} has taken the number of a PostgreSQL that crashed; removing the stale note of it`,
    );
    await rm(noteOf(clusterDir), { force: true });
  }
  for (const sessionPid of findProcesses(`postgres: ${serverTitle(clusterDir)}: `)) {
    const session = identifyProcess(sessionPid);
    if (session === undefined) continue;
    log('warn', `ending the PostgreSQL session process ${sessionPid}, which outlived its server`);
    if (!sendSignal(session, 'SIGQUIT') || (await waitForEnd(session, IMMEDIATE_SHUTDOWN_MS))) continue;
    sendSignal(session, 'SIGKILL');
  }
}

/** The number of the server as PostgreSQL notes it in its cluster; a server that was killed leaves the note. */
async function readServerNumber(clusterDir: string): Promise<number | undefined> {
  const path = noteOf(clusterDir);
  if (!(await exists(path))) return undefined;
  const pid = Number((await readFile(path, 'utf8')).split('\n')[0]);
  return Number.isInteger(pid) && pid > 0 ? pid : undefined;
}

function noteOf(clusterDir: string): string {
  return join(clusterDir, 'postmaster.pid');
}

/** Sends a signal, or returns false when the process has ended. */
function sendSignal(target: ProcessIdentity, signal: NodeJS.Signals): boolean {
  if (!isRunning(target)) return false;
  try {
    process.kill(target.pid, signal);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false;
    throw stopFailed(target, (error as Error).message);
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

function stopFailed(target: ProcessIdentity, reason: string): EmbeddedPostgresError {
  return new EmbeddedPostgresError(
    'STOP_FAILED',
    `The PostgreSQL process ${target.pid} cannot be stopped: ${reason}. Stop it by hand, as root if need be, and start again.`,
  );
}
