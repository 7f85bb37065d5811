import type { History, Overview, Spread } from '../api/bodies.ts';
import { withQuery } from '../api/client.ts';
import { now } from '../clock.ts';
import { countOf, formatCount, formatSpan } from '../format.ts';
import { assessHealth } from '../health.ts';
import { budget, stats } from '../live.ts';
import { BudgetGauge } from '../parts/budget-gauge.tsx';
import { Choice } from '../parts/filters.tsx';
import { HistoryCharts } from '../parts/history-charts.tsx';
import { Icon } from '../parts/icon.tsx';
import { Age } from '../parts/moment.tsx';
import { Card, Facts, Page } from '../parts/page.tsx';
import { Shown } from '../parts/shown.tsx';
import { useResource } from '../resource.ts';
import { Link, place } from '../router.tsx';

const EVERY_MS = 10_000;
const HOURS = ['1', '3', '24'];

/** What whoever is on call looks at first: is all well, and if not, what is the matter. */
export function OverviewView() {
  const overview = useResource<Overview>('/api/admin/overview', ['webhook', 'athlete'], EVERY_MS);
  const chosen = place.value.query.get('hours');
  const hours = HOURS.includes(chosen ?? '') ? (chosen as string) : '1';
  const history = useResource<History>(withQuery('/api/admin/history', { hours }), [], EVERY_MS);
  return (
    <Page title="Overview">
      <Shown resource={overview}>
        {(read) => (
          <Figures overview={{ ...read, stats: stats.value ?? read.stats, budget: budget.value ?? read.budget }} />
        )}
      </Shown>
      <Card
        title="What was done"
        wide
        aside={
          <Choice
            label="Span of the charts"
            name="hours"
            options={HOURS.map((value) => ({ value: value === '1' ? undefined : value, text: `${value} h` }))}
          />
        }
      >
        <Shown resource={history}>{(read) => <HistoryCharts history={read} />}</Shown>
      </Card>
    </Page>
  );
}

function Figures({ overview }: { overview: Overview }) {
  const { stats: counts, budget: current, lastHour } = overview;
  const oldestDueS = Math.max(...Object.values(overview.oldestDueS));
  return (
    <>
      <HealthBanner overview={overview} />
      <ul class="tiles" aria-label="Jobs by status">
        <Tile name="Pending" value={formatCount(counts.pending)} to="/jobs?status=pending" tone="amber" />
        <Tile name="Working" value={formatCount(counts.working)} to="/jobs?status=working" tone="blue" />
        <Tile name="Done" value={formatCount(counts.done)} to="/jobs?status=done" tone="green" />
        <Tile name="Failed" value={formatCount(counts.failed)} to="/jobs?status=failed" tone="red" />
        <Tile
          name="Oldest due job"
          value={oldestDueS === 0 ? 'none' : formatSpan(oldestDueS * 1000)}
          to="/jobs?status=pending"
        />
        <Tile
          name="Webhook → stored"
          value={seconds(lastHour.stored.p50S)}
          note={
            lastHour.stored.count === 0
              ? 'none in the last hour'
              : `median; 95% within ${seconds(lastHour.stored.p95S)}`
          }
          to="/deliveries"
        />
      </ul>
      <div class="cards">
        <Card title="The provider’s budget" wide>
          <BudgetGauge budget={current} />
        </Card>
        <Card title="Webhooks">
          <Facts
            of={[
              ['Last one', <Age at={overview.lastWebhookAt} />],
              ['Stored in the last hour', formatCount(lastHour.stored.count)],
              ['Half, 95% stored within', `${seconds(lastHour.stored.p50S)}, ${seconds(lastHour.stored.p95S)}`],
              ['Stored after', spread(lastHour.stored)],
              ['Begun after', spread(lastHour.wait.webhook)],
            ]}
          />
        </Card>
        <Card title="Polling">
          <Facts of={[...pollingFacts(overview)]} />
        </Card>
        <Card title="Athletes">
          <Facts
            of={[
              ['Healthy', <Link to="/athletes?state=healthy">{formatCount(overview.athletes.healthy)}</Link>],
              [
                'Must connect again',
                <Link to="/athletes?state=reconnect">{formatCount(overview.athletes.reconnect)}</Link>,
              ],
              ['Granted too little', <Link to="/athletes?state=scope">{formatCount(overview.athletes.scope)}</Link>],
            ]}
          />
        </Card>
      </div>
    </>
  );
}

function HealthBanner({ overview }: { overview: Overview }) {
  const { level, sentence, notes } = assessHealth(overview, now.value);
  return (
    <div class={`health ${level}`}>
      <Icon name={level} />
      <div>
        <p class="sentence" role="status">
          {sentence}
        </p>
        {notes.length > 0 && (
          <ul class="notes">
            {notes.map(({ text, to }) => (
              <li key={text}>
                <Link to={to}>{text}</Link>
              </li>
            ))}
          </ul>
        )}
      </div>
    </div>
  );
}

function Tile({
  name,
  value,
  note,
  to,
  tone,
}: {
  name: string;
  value: string;
  note?: string;
  to: string;
  tone?: string;
}) {
  return (
    <li>
      <Link class={`tile ${tone ?? ''}`} to={to}>
        <span class="name">{name}</span>
        <span class="value">{value}</span>
        {note && <span class="note">{note}</span>}
      </Link>
    </li>
  );
}

function pollingFacts({ polling, lastDay }: Overview): [string, preact.ComponentChildren][] {
  const { missed = 0, changed = 0, vanished = 0 } = lastDay.drift;
  const drift = missed + changed + vanished;
  return [
    [
      'Sweep',
      polling.startedAt ? (
        <>
          under way, begun <Age at={polling.startedAt} />
        </>
      ) : (
        'none under way'
      ),
    ],
    ['Last one finished', <Age at={polling.finishedAt} />],
    [
      'Drift in a day',
      drift === 0
        ? 'none'
        : `${countOf(drift, 'activity', 'activities')}: ${missed} missed, ${changed} changed, ${vanished} vanished`,
    ],
  ];
}

function spread({ p50S, p95S }: Spread): string {
  return p50S === null ? '–' : `${seconds(p50S)} (median), ${seconds(p95S)} (95%)`;
}

function seconds(value: number | null): string {
  return value === null ? '–' : formatSpan(value * 1000);
}
