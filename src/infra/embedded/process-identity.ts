import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';

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

/** Names the machine or container whose process numbers this process sees. */
export function readProcessSpace(): string {
  return process.platform === 'linux' ? `${hostname()} ${readlinkSync('/proc/self/ns/pid')}` : hostname();
}

/** The command line of a process, its words joined by spaces; empty when it has ended. */
export function readCommandLine(pid: number): string {
  return process.platform === 'linux'
    ? (readOrUndefined(`/proc/${pid}/cmdline`) ?? '').split('\0').join(' ').trim()
    : askPs(['-p', String(pid), '-o', 'command=']);
}

/** The numbers of the processes whose command line starts so. */
export function findProcesses(commandStart: string): number[] {
  if (process.platform === 'linux') {
    const pids = readdirSync('/proc').filter((name) => /^[0-9]+$/.test(name));
    return pids.map(Number).filter((pid) => readCommandLine(pid).startsWith(commandStart));
  }
  return askPs(['-axo', 'pid=,command='])
    .split('\n')
    .map((line) => /^\s*([0-9]+) (.*)$/.exec(line))
    .filter((match) => match?.[2]?.startsWith(commandStart) === true)
    .map((match) => Number(match?.[1]));
}

function readStart(pid: number): string | undefined {
  if (!exists(pid)) return undefined;
  if (process.platform !== 'linux') return askPs(['-p', String(pid), '-o', 'lstart=']) || undefined;
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

function askPs(args: string[]): string {
  try {
    return execFileSync('ps', args, { encoding: 'utf8' }).trim();
  } catch (error) {
    // ps ends with 1 when there is no such process.
    if ((error as { status?: number }).status === 1) return '';
    throw error;
  }
}

function readOrUndefined(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? '';
    if (!['ENOENT', 'ESRCH', 'EACCES', 'EPERM'].includes(code)) throw error;
    return undefined;
  }
}
