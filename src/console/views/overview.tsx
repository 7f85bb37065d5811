import type { ComponentChildren } from 'preact';
import type { History, Overview } from '../api/bodies.ts';
import { withQuery } from '../api/client.ts';
import { countOf, formatCount } from '../format.ts';
import { budget, silentSince, stats } from '../live.ts';
import { BudgetGauge } from '../parts/budget-gauge.tsx';
import { Choice } from '../parts/filters.tsx';
import { HealthBanner } from '../parts/health-banner.tsx';
import { HistoryCharts } from '../parts/history-charts.tsx';
import { Age } from '../parts/moment.tsx';
import { inSpread, OverviewTiles } from '../parts/overview-tiles.tsx';
import { Card, Facts, Page } from '../parts/page.tsx';
import { Shown } from '../parts/shown.tsx';
import { useResource } from '../resource.ts';
import { Link, place } from '../router.tsx';

const EVERY_MS = 10_000;
const HOURS = ['1', '3', '24'];

/** What the operator on call looks at first: is all well, and if not, what is wrong. */
export function OverviewView() {
  const read = useResource<Overview>('/api/admin/overview', ['webhook', 'athlete'], EVERY_MS);
  return (
    <Page title="Overview">
      <Shown resource={read}>
        {(figures) => {
          // Jobs and budget arrive as live events; the values read with the rest are only the first ones.
          const overview = { ...figures, stats: stats.value ?? figures.stats, budget: budget.value ?? figures.budget };
          return (
            <>
              <HealthBanner overview={overview} isOld={read.error !== undefined || silentSince.value !== null} />
              <OverviewTiles overview={overview} />
              <Card title="The provider’s budget">
                <BudgetGauge budget={overview.budget} />
              </Card>
              <Charts />
              <div class="cards">
                <Card title="Webhooks">
                  <Facts of={webhookFacts(overview)} />
                </Card>
                <Card title="Polling">
                  <Facts of={pollingFacts(overview)} />
                </Card>
                <Card title="Athletes">
                  <Facts of={athleteFacts(overview)} />
                </Card>
              </div>
            </>
          );
        }}
      </Shown>
    </Page>
  );
}

function Charts() {
  const chosen = place.value.query.get('hours');
  const hours = HOURS.includes(chosen ?? '') ? (chosen as string) : '1';
  const history = useResource<History>(withQuery('/api/admin/history', { hours }), [], EVERY_MS);
  const options = HOURS.map((value) => ({ value: value === '1' ? undefined : value, text: `${value} h` }));
  return (
    <Card title="The last hours" wide aside={<Choice label="Span of the charts" name="hours" options={options} />}>
      <Shown resource={history}>{(read) => <HistoryCharts history={read} />}</Shown>
    </Card>
  );
}

type ListOfFacts = [string, ComponentChildren][];

function webhookFacts({ lastWebhookAt, lastHour }: Overview): ListOfFacts {
  return [
    ['Last one', <Age at={lastWebhookAt} />],
    ['Stored in an hour', formatCount(lastHour.stored.count)],
    ['Stored after', inSpread(lastHour.stored)],
    ['Queue wait', inSpread(lastHour.wait.webhook)],
  ];
}

function pollingFacts({ polling: { startedAt, finishedAt }, lastDay }: Overview): ListOfFacts {
  const { missed = 0, changed = 0, vanished = 0 } = lastDay.drift;
  const drift = missed + changed + vanished;
  const kinds = Object.entries({ missed, changed, vanished }).flatMap(([kind, n]) => (n > 0 ? [`${n} ${kind}`] : []));
  return [
    [
      'Sweep',
      startedAt ? (
        <>
          running, started <Age at={startedAt} />
        </>
      ) : (
        'none running'
      ),
    ],
    ['Last finished', <Age at={finishedAt} />],
    ['Drift in a day', drift === 0 ? 'none' : `${countOf(drift, 'activity', 'activities')}: ${kinds.join(', ')}`],
  ];
}

function athleteFacts({ athletes }: Overview): ListOfFacts {
  return [
    ['Healthy', <Link to="/athletes?state=healthy">{formatCount(athletes.healthy)}</Link>],
    ['Must reconnect', <Link to="/athletes?state=reconnect">{formatCount(athletes.reconnect)}</Link>],
    ['Insufficient scope', <Link to="/athletes?state=scope">{formatCount(athletes.scope)}</Link>],
  ];
}
