import { getHeapStatistics } from 'node:v8';
import { readNodeOptions } from './config.ts';

const OPTION = /^--max[-_]old[-_]space[-_]size=(\d+)$/;

/**
 * The heap at which the process ends for want of memory, in bytes.
 *
 * V8's own figure counts the room for young objects to the limit, far more than they ever fill: a process that is
 * given 384 MiB ends with about as much in use, and V8 says 576.
 */
export function findHeapLimit(options: readonly string[] = readNodeOptions()): number {
  const given = options.flatMap((option) => OPTION.exec(option)?.[1] ?? []).at(-1);
  return given === undefined ? getHeapStatistics().heap_size_limit : Number(given) * 1024 * 1024;
}
