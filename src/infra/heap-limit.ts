import { getHeapStatistics } from 'node:v8';
import { readNodeOptions } from './config.ts';

const OPTION = /^--max[-_]old[-_]space[-_]size=(\d+)$/;

/**
 * The heap size at which the process runs out of memory, in bytes.
 *
 * V8's own figure includes the space for young objects, far more than they ever fill: a process limited to 384 MiB
 * ends with about that much in use, and V8 reports 576.
 */
export function findHeapLimit(options: readonly string[] = readNodeOptions()): number {
  const given = options.flatMap((option) => OPTION.exec(option)?.[1] ?? []).at(-1);
  return given === undefined ? getHeapStatistics().heap_size_limit : Number(given) * 1024 * 1024;
}
