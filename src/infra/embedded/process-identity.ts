import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

/** A process for good: its number is given to another process later, its number and start are not. */
export interface ProcessIdentity {
  pid: number;
  /** When it started, in a form that only this machine and this boot of it compare. */
  startedAt: string;
}

/** A process that exists but that this account may not look at. */
const HIDDEN = 'hidden';

/** The identity of a process, or undefined when none has this number (a zombie counts as none). */
export function identifyProcess(pid: number): ProcessIdentity | undefined {
  const startedAt = readStart(pid);
  return startedAt === undefined ? undefined : { pid, startedAt };
}

/** Whether this very process still runs. Where that cannot be told, the answer is yes. */
export function isRunning(identity: ProcessIdentity): boolean {
  const startedAt = readStart(identity.pid);
  return startedAt !== undefined && (startedAt === identity.startedAt || startedAt === HIDDEN);
}

/** The words of a process's command line, joined by spaces; empty when it has ended. */
export function readCommandLine(pid: number): string {
  return process.platform === 'linux'
    ? (readOrUndefined(`/proc/${pid}/cmdline`) ?? '').split('\0').join(' ').trim()
    : askPs(pid, 'command');
}

/** The processes whose current folder is `folder`: all processes of a PostgreSQL server work in its cluster. */
export function findProcessesIn(folder: string): number[] {
  if (process.platform !== 'linux') return [];
  return readdirSync('/proc')
    .filter((name) => /^[0-9]+$/.test(name) && currentFolder(name) === folder)
    .map(Number);
}

function readStart(pid: number): string | undefined {
  if (!exists(pid)) return undefined;
  if (process.platform !== 'linux') return askPs(pid, 'lstart') || undefined;
  const stat = readOrUndefined(`/proc/${pid}/stat`);
  if (stat === undefined) return exists(pid) ? HIDDEN : undefined;
  // The program's name stands in parentheses and may contain anything; the state and the start, in clock
  // ticks since boot, are the 1st and the 20th word after it.
  const words = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  if (words[0] === 'Z' || words[0] === 'X') return undefined;
  return `${readOrUndefined('/proc/sys/kernel/random/boot_id')?.trim()}:${words[19]}`;
}

function exists(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

function askPs(pid: number, column: string): string {
  try {
    return execFileSync('ps', ['-p', String(pid), '-o', `${column}=`], { encoding: 'utf8' }).trim();
  } catch (error) {
    // ps ends with 1 when there is no such process.
    if ((error as { status?: number }).status === 1) return '';
    throw error;
  }
}

function currentFolder(pid: string): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/cwd`);
  } catch (error) {
    return ignoreGoneOrForbidden(error);
  }
}

function readOrUndefined(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    return ignoreGoneOrForbidden(error);
  }
}

function ignoreGoneOrForbidden(error: unknown): undefined {
  const code = (error as NodeJS.ErrnoException).code ?? '';
  if (!['ENOENT', 'ESRCH', 'EACCES', 'EPERM'].includes(code)) throw error;
  return undefined;
}
