import type { Clock } from '../domain/clock.ts';
import type { Database } from '../infra/database.ts';
import type { Logger } from '../infra/logger.ts';
import type { Metrics } from '../infra/metrics.ts';
import { addToHistory, type HistoryCount } from '../store/history.ts';
import { Repeater } from './repeater.ts';

const EVERY_MS = 5000; // the console shows failures from it

/**
 * Keeps a history for charts: what this process counted since the last time is added to the running
 * minute in the database. What cannot be written is written the next time.
 */
export class HistoryRecorder {
  readonly #options: { database: Database; clock: Clock; logger: Logger; metrics: Metrics };
  readonly #repeater: Repeater;
  #written = new Map<string, number>();

  constructor(options: { database: Database; clock: Clock; logger: Logger; metrics: Metrics }) {
    this.#options = options;
    const { clock, logger } = options;
    this.#repeater = new Repeater({ name: 'history', everyMs: EVERY_MS, run: () => this.#record(), clock, logger });
  }

  start(): void {
    this.#repeater.start();
  }

  /** Writes what is left. */
  async stop(): Promise<void> {
    await this.#repeater.stop();
    await this.#record().catch((error: Error) =>
      this.#options.logger.warn('last seconds missing from the history', {
        component: 'history',
        error: error.message,
      }),
    );
  }

  async #record(): Promise<void> {
    const totals = await readTotals(this.#options.metrics);
    const counts = totals
      .map((total) => ({ ...total, n: total.n - (this.#written.get(keyOf(total)) ?? 0) }))
      .filter(({ n }) => n > 0);
    await addToHistory(this.#options.database, counts);
    this.#written = new Map(totals.map((total) => [keyOf(total), total.n]));
  }
}

function keyOf({ measure, bucket }: HistoryCount): string {
  return `${measure} ${bucket}`;
}

async function readTotals(metrics: Metrics): Promise<HistoryCount[]> {
  const [finished, drift, wait, stored] = await Promise.all([
    metrics.jobsFinished.get(),
    metrics.drift.get(),
    metrics.jobWait.get(),
    metrics.storedAfter.get(),
  ]);
  const byResult = new Map<string, number>();
  for (const { labels, value } of finished.values) {
    const measure = `finished:${labels.result}`;
    byResult.set(measure, (byResult.get(measure) ?? 0) + value);
  }
  return [
    ...[...byResult].map(([measure, n]) => ({ measure, bucket: 0, n })),
    ...drift.values.map(({ labels, value }) => ({ measure: `drift:${labels.kind}`, bucket: 0, n: value })),
    ...bucketsOf(wait.values, (labels) => `wait:${labels.reason}`),
    ...bucketsOf(stored.values, () => 'stored'),
  ];
}

interface HistogramValue {
  metricName?: string | undefined;
  labels: Partial<Record<string, string | number>>;
  value: number;
}

// Prometheus counts each bucket with all below it; the history counts each alone.
function bucketsOf(
  values: readonly HistogramValue[],
  measureOf: (labels: HistogramValue['labels']) => string,
): HistoryCount[] {
  const below = new Map<string, number>();
  return values
    .filter(({ metricName }) => metricName?.endsWith('_bucket'))
    .map(({ labels, value }) => ({
      measure: measureOf(labels),
      bucket: labels.le === '+Inf' ? Number.POSITIVE_INFINITY : Number(labels.le),
      n: value,
    }))
    .sort((a, b) => a.bucket - b.bucket)
    .map((total) => {
      const n = total.n - (below.get(total.measure) ?? 0);
      below.set(total.measure, total.n);
      return { ...total, n };
    });
}
