import { REASONS, type Reason } from '../domain/job.ts';
import { type Bucket, percentileOf } from '../domain/percentile.ts';
import type { Database } from '../infra/database.ts';
import { databaseTime } from '../store/database-time.ts';
import { type HistoryCount, readHistory, sumHistory } from '../store/history.ts';

/** Median and 95th percentile, in seconds; null where nothing was measured. */
export interface Spread {
  count: number;
  p50S: number | null;
  p95S: number | null;
}

/** What happened in one step of time. */
export interface HistoryPoint {
  at: Date;
  /** Runs by result. */
  finished: Record<string, number>;
  /** What polling found that webhooks should have brought. */
  drift: Record<string, number>;
  /** From due to claimed. */
  wait: Record<Reason, Spread>;
  /** From the acceptance of a webhook event to its stored activity. */
  stored: Spread;
}

export interface History {
  stepS: number;
  points: HistoryPoint[];
}

const HOUR_S = 3600;
const HOUR_MS = 3_600_000;

/** The last hours in equal steps, oldest first; empty steps are included. */
export async function readLastHours(database: Database, hours: number): Promise<History> {
  const stepS = stepOf(hours);
  const now = await databaseTime(database);
  const rows = await readHistory(database, new Date(now.getTime() - hours * HOUR_MS), stepS);
  const byStep = Map.groupBy(rows, ({ at }) => at.getTime());
  const stepMs = stepS * 1000;
  const first = Math.floor((now.getTime() - hours * HOUR_MS) / stepMs);
  const last = Math.floor(now.getTime() / stepMs);
  const points = Array.from({ length: last - first + 1 }, (_, index) => {
    const at = (first + index) * stepMs;
    return { at: new Date(at), ...summarise(byStep.get(at) ?? []) };
  });
  return { stepS, points };
}

/** The same as one sum. */
export async function readSum(database: Database, hours: number): Promise<Omit<HistoryPoint, 'at'>> {
  const now = await databaseTime(database);
  return summarise(await sumHistory(database, new Date(now.getTime() - hours * HOUR_MS)));
}

// A chart has some hundred points, whatever the span.
function stepOf(hours: number): number {
  if (hours <= 3) return HOUR_S / 60;
  return hours <= 24 ? HOUR_S / 6 : HOUR_S;
}

function summarise(rows: readonly HistoryCount[]): Omit<HistoryPoint, 'at'> {
  return {
    finished: sumOf(rows, 'finished:'),
    drift: sumOf(rows, 'drift:'),
    wait: Object.fromEntries(
      REASONS.map((reason) => [reason, spreadOf(rows, `wait:${reason}`)]),
    ) as HistoryPoint['wait'],
    stored: spreadOf(rows, 'stored'),
  };
}

function sumOf(rows: readonly HistoryCount[], prefix: string): Record<string, number> {
  const sums: Record<string, number> = {};
  for (const { measure, n } of rows) {
    if (!measure.startsWith(prefix)) continue;
    const name = measure.slice(prefix.length);
    sums[name] = (sums[name] ?? 0) + n;
  }
  return sums;
}

function spreadOf(rows: readonly HistoryCount[], wanted: string): Spread {
  const counts = new Map<number, number>();
  for (const { measure, bucket, n } of rows) if (measure === wanted) counts.set(bucket, (counts.get(bucket) ?? 0) + n);
  const buckets: Bucket[] = [...counts].map(([upTo, count]) => ({ upTo, count }));
  return {
    count: buckets.reduce((sum, { count }) => sum + count, 0),
    p50S: toTenthsOfMs(percentileOf(buckets, 0.5)),
    p95S: toTenthsOfMs(percentileOf(buckets, 0.95)),
  };
}

// A histogram's estimate is no more precise; further digits are noise.
function toTenthsOfMs(seconds: number | null): number | null {
  return seconds === null ? null : Math.round(seconds * 10_000) / 10_000;
}
