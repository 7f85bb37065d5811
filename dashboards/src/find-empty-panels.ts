import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { panelQueries, withoutGrafanaVariables } from './panel-queries.ts';

/** A query of a panel that Prometheus has no data for, or refuses. */
export interface EmptyQuery {
  panel: string;
  expr: string;
  reason: string;
}

const STEP_SECONDS = 15;

/**
 * Evaluates the metric queries of a dashboard on a real Prometheus over the most recent time.
 * @param options.rangeSeconds how far back
 * @param options.window what replaces Grafana's windows, such as `1m`
 */
export async function findEmptyQueries(
  file: string,
  options: { prometheusUrl: string; rangeSeconds: number; window: string },
): Promise<EmptyQuery[]> {
  const dashboard = JSON.parse(readFileSync(join(import.meta.dirname, '..', file), 'utf8'));
  const end = Date.now() / 1000;
  const empty: EmptyQuery[] = [];
  for (const { panel, language, expr } of panelQueries(dashboard)) {
    if (language !== 'promql') continue;
    const answer = await fetch(`${options.prometheusUrl}/api/v1/query_range`, {
      method: 'POST',
      body: new URLSearchParams({
        query: withoutGrafanaVariables(expr, options.window),
        start: String(end - options.rangeSeconds),
        end: String(end),
        step: String(Math.min(STEP_SECONDS, options.rangeSeconds / 10)),
      }),
    });
    const { error, data } = (await answer.json()) as { error?: string; data?: { result: unknown[] } };
    if (error !== undefined) empty.push({ panel, expr, reason: error });
    else if (data?.result.length === 0) empty.push({ panel, expr, reason: 'no data' });
  }
  return empty;
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      url: { type: 'string', default: 'http://localhost:9090' },
      dashboard: { type: 'string', default: 'activity-sync.json' },
      minutes: { type: 'string', default: '10' },
    },
  });
  const options = { prometheusUrl: values.url, rangeSeconds: Number(values.minutes) * 60, window: '1m' };
  const empty = await findEmptyQueries(values.dashboard, options);
  for (const { panel, expr, reason } of empty) process.stdout.write(`${panel}: ${reason}: ${expr}\n`);
  process.exitCode = empty.length === 0 ? 0 : 1;
}
