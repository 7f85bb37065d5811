import { DONE_OUTCOMES, FAILED_OUTCOMES } from '../../domain/job.ts';
import { type Overview, REASONS, type Spread } from '../api/bodies.ts';
import { countFinished } from '../finished.ts';
import { formatCount, formatSpan } from '../format.ts';
import { Link } from '../router.tsx';

/** The most important figures; each links to what it counts. */
export function OverviewTiles({ overview: { stats, oldestDueS, lastHour, budget } }: { overview: Overview }) {
  const { finished, stored } = lastHour;
  const oldest = REASONS.reduce((a, b) => (oldestDueS[b] > oldestDueS[a] ? b : a));
  const held = budget.waiting.cooldown + budget.waiting.budget + budget.waiting.backoff;
  const inLastHour = (n = 0) => `${formatCount(n)} last hour`;
  return (
    <ul class="tiles" aria-label="Jobs by status">
      <Tile
        name="Pending"
        value={formatCount(stats.pending)}
        note={`${formatCount(Math.min(held, stats.pending))} held back`}
        to="/jobs?status=pending"
        tone="amber"
      />
      <Tile name="Working" value={formatCount(stats.working)} note="now" to="/jobs?status=working" tone="blue" />
      <Tile
        name="Done"
        value={formatCount(stats.done)}
        note={inLastHour(countFinished(finished, DONE_OUTCOMES))}
        to="/jobs?status=done"
        tone="green"
      />
      <Tile
        name="Failed"
        value={formatCount(stats.failed)}
        note={inLastHour(countFinished(finished, FAILED_OUTCOMES))}
        to="/jobs?status=failed"
        tone="red"
      />
      <Tile
        name="Oldest due job"
        value={oldestDueS[oldest] === 0 ? 'none' : formatSpan(oldestDueS[oldest] * 1000)}
        note={oldestDueS[oldest] === 0 ? 'nothing is late' : oldest}
        to="/jobs?status=pending"
      />
      <Tile
        name="Webhook → stored"
        value={seconds(stored.p50S)}
        note={stored.count === 0 ? 'none in the last hour' : `95%: ${seconds(stored.p95S)}`}
        to="/deliveries"
      />
    </ul>
  );
}

function Tile({
  name,
  value,
  note,
  to,
  tone = '',
}: {
  name: string;
  value: string;
  note: string;
  to: string;
  tone?: string;
}) {
  return (
    <li>
      <Link class={`tile ${tone}`} to={to}>
        <span class="name">{name}</span>
        <span class="value">{value}</span>
        <span class="note">{note}</span>
      </Link>
    </li>
  );
}

/** A median and a 95th percentile in words. */
export function inSpread({ p50S, p95S }: Spread): string {
  return p50S === null ? '–' : `${seconds(p50S)} median, ${seconds(p95S)} for 95%`;
}

function seconds(value: number | null): string {
  return value === null ? '–' : formatSpan(value * 1000);
}
