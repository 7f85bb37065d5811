import { useMemo } from 'preact/hooks';
import { FAILED_OUTCOMES } from '../../domain/job.ts';
import type { History } from '../api/bodies.ts';
import { countFinished } from '../finished.ts';
import { formatCount, formatSpan } from '../format.ts';
import { COUNT_STEPS, SPAN_STEPS } from './axis-steps.ts';
import { Chart } from './chart.tsx';

/** The last hours: what was fetched, what went wrong, and how long webhooks' jobs took. */
export function HistoryCharts({ history }: { history: History }) {
  const charts = useMemo(() => seriesOf(history), [history]);
  const { times, stored, failed, retried } = charts;
  const step = formatSpan(history.stepS * 1000);
  return (
    <div class="charts">
      <div>
        <h3>Activities per {step === '1 min' ? 'minute' : step}</h3>
        <Chart
          times={times}
          summary={`${formatCount(sum(stored))} activities stored, ${formatCount(sum(failed))} jobs failed, ${formatCount(sum(retried))} runs to be retried.`}
          steps={COUNT_STEPS}
          format={formatCount}
          series={[
            { name: 'stored', colour: '--green', values: stored, bars: true },
            { name: 'failed', colour: '--red', values: failed, bars: true },
            { name: 'tried again', colour: '--amber', values: retried },
          ]}
        />
      </div>
      <div>
        <h3>Webhook → stored</h3>
        <Chart
          times={times}
          summary={`Time from a webhook to its stored activity; at most ${formatSpan(1000 * highest(charts.stored95))} for 95 of 100 in each step.`}
          steps={SPAN_STEPS}
          format={(value) => formatSpan(value * 1000)}
          series={[
            { name: 'median', colour: '--blue', values: charts.stored50 },
            { name: '95%', colour: '--accent', values: charts.stored95 },
          ]}
        />
      </div>
      <div>
        <h3>Wait of webhooks’ jobs</h3>
        <Chart
          times={times}
          summary={`Queue wait, from due to claimed; at most ${formatSpan(1000 * highest(charts.wait95))} for 95 of 100 in each step.`}
          steps={SPAN_STEPS}
          format={(value) => formatSpan(value * 1000)}
          series={[
            { name: 'median', colour: '--blue', values: charts.wait50 },
            { name: '95%', colour: '--accent', values: charts.wait95 },
          ]}
        />
      </div>
    </div>
  );
}

function seriesOf({ points }: History) {
  return {
    times: points.map(({ at }) => Date.parse(at) / 1000),
    stored: points.map(({ finished }) => finished.stored ?? 0),
    failed: points.map(({ finished }) => countFinished(finished, FAILED_OUTCOMES)),
    retried: points.map(({ finished }) => finished.retry ?? 0),
    stored50: points.map(({ stored }) => stored.p50S),
    stored95: points.map(({ stored }) => stored.p95S),
    wait50: points.map(({ wait }) => wait.webhook.p50S),
    wait95: points.map(({ wait }) => wait.webhook.p95S),
  };
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

function highest(values: readonly (number | null)[]): number {
  return Math.max(0, ...values.map((value) => value ?? 0));
}
