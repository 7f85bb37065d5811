import type { Builder, Dataquery } from '@grafana/grafana-foundation-sdk/cog';
import {
  LegendDisplayMode,
  LegendPlacement,
  ReduceDataOptionsBuilder,
  StackingMode,
} from '@grafana/grafana-foundation-sdk/common';
import {
  type Dashboard,
  DashboardLinkBuilder,
  DashboardLinkType,
  PanelBuilder as GenericPanelBuilder,
  type Panel,
  ThresholdsConfigBuilder,
  ThresholdsMode,
} from '@grafana/grafana-foundation-sdk/dashboard';
import { PanelBuilder as LogsPanelBuilder } from '@grafana/grafana-foundation-sdk/logs';
import { DataqueryBuilder as LokiQueryBuilder } from '@grafana/grafana-foundation-sdk/loki';
import { DataqueryBuilder as PrometheusQueryBuilder } from '@grafana/grafana-foundation-sdk/prometheus';
import { PanelBuilder as StatPanelBuilder } from '@grafana/grafana-foundation-sdk/stat';
import { PanelBuilder as TablePanelBuilder } from '@grafana/grafana-foundation-sdk/table';
import { PanelBuilder as TimeseriesPanelBuilder } from '@grafana/grafana-foundation-sdk/timeseries';
import { scoped } from './scope.ts';

export type { Dashboard };
export const METRICS = { type: 'prometheus', uid: `\${metrics}` };
export const LOGS = { type: 'loki', uid: `\${logs}` };

/** Shortest step of a chart that counts: with `[$__interval]` no event is in two steps, and each step has several scrapes. */
const COUNTING_STEP = '1m';

/** A query and the legend of its series. */
export type Query = readonly [expr: string, legend: string];

interface PanelText {
  title: string;
  description: string;
  /** Section of docs/runbooks, such as `queue.md#activitysyncqueuestalled`. */
  runbook?: string;
  /** Width in 24ths of the row. */
  width?: number;
}

/** A built panel and how much of the row it takes. */
export interface PlacedPanel {
  panel: Panel;
  width: number;
  height: number;
}

/**
 * Lines over time.
 * @param options.counted pattern of the legends of those lines that are counts beside others with a unit
 */
export function chart(
  text: PanelText,
  unit: string,
  queries: Query[],
  options: { isStacked?: boolean; max?: number; counted?: string } = {},
): PlacedPanel {
  const builder = new TimeseriesPanelBuilder()
    .unit(unit)
    .min(0)
    .fillOpacity(options.isStacked ? 60 : 8)
    .legend(legendBelow())
    .targets(queries.map(metricQuery));
  if (queries.some(([expr]) => expr.includes('[$__interval]'))) builder.interval(COUNTING_STEP);
  if (options.isStacked) builder.stacking({ build: () => ({ mode: StackingMode.Normal, group: 'A' }) });
  if (options.max !== undefined) builder.max(options.max);
  if (options.counted !== undefined)
    builder.overrideByRegexp(options.counted, [
      { id: 'unit', value: 'none' },
      { id: 'custom.axisPlacement', value: 'right' },
    ]);
  return placed(withText(builder, text).datasource(METRICS).build(), text.width ?? 8, 8);
}

/**
 * One figure, green until `warn`, yellow until `bad`, then red; with `isLowBad` the other way round. An instant query:
 * for a time range Grafana would show the last value in it, however old.
 */
export function figure(
  text: PanelText,
  unit: string,
  expr: string,
  limits: { warn: number; bad: number; isLowBad?: boolean },
): PlacedPanel {
  const [low, middle, high] = limits.isLowBad ? ['red', 'orange', 'green'] : ['green', 'orange', 'red'];
  const steps = limits.isLowBad
    ? [
        { value: null, color: low },
        { value: limits.bad, color: middle },
        { value: limits.warn, color: high },
      ]
    : [
        { value: null, color: low },
        { value: limits.warn, color: middle },
        { value: limits.bad, color: high },
      ];
  const builder = new StatPanelBuilder()
    .unit(unit)
    .reduceOptions(new ReduceDataOptionsBuilder().calcs(['lastNotNull']))
    .thresholds(new ThresholdsConfigBuilder().mode(ThresholdsMode.Absolute).steps(steps as never))
    .targets([
      new PrometheusQueryBuilder().expr(scoped(expr)).legendFormat('').instant().refId('A').datasource(METRICS),
    ]);
  return placed(withText(builder, text).datasource(METRICS).build(), text.width ?? 4, 4);
}

/** The newest values of some series as rows. */
export function table(text: PanelText, query: Query): PlacedPanel {
  const target = new PrometheusQueryBuilder()
    .expr(scoped(query[0]))
    .legendFormat(query[1])
    .instant()
    .refId('A')
    .format('table' as never);
  const builder = new TablePanelBuilder().targets([target.datasource(METRICS)]).withTransformation({
    id: 'organize',
    options: { excludeByName: { Time: true, Value: true, __name__: true } },
  });
  return placed(withText(builder, text).datasource(METRICS).build(), text.width ?? 12, 8);
}

/** Log lines, newest first. */
export function logLines(text: PanelText, expr: string): PlacedPanel {
  const builder = new LogsPanelBuilder()
    .showTime(true)
    .wrapLogMessage(true)
    .enableLogDetails(true)
    .targets([new LokiQueryBuilder().expr(expr).refId('A').queryType('range').datasource(LOGS)]);
  return placed(withText(builder, text).datasource(LOGS).build(), text.width ?? 24, 10);
}

/** Grafana's own list of alerts, which shows each alert's text and runbook. */
export function alertList(text: PanelText, nameFilter: string): PlacedPanel {
  const builder = new GenericPanelBuilder().type('alertlist').options({
    viewMode: 'list',
    groupMode: 'default',
    sortOrder: 3,
    maxItems: 30,
    alertInstanceLabelFilter: nameFilter,
    stateFilter: { firing: true, pending: true, noData: false, normal: false, error: true },
  });
  return placed(withText(builder, text).build(), text.width ?? 12, 8);
}

function metricQuery([expr, legend]: Query, index: number): Builder<Dataquery> {
  return new PrometheusQueryBuilder()
    .expr(scoped(expr))
    .legendFormat(legend)
    .range()
    .refId(String.fromCharCode(65 + index))
    .datasource(METRICS);
}

function legendBelow() {
  return {
    build: () => ({
      displayMode: LegendDisplayMode.Table,
      placement: LegendPlacement.Bottom,
      showLegend: true,
      calcs: ['lastNotNull', 'mean', 'max'],
    }),
  };
}

function withText<
  B extends { title(text: string): B; description(text: string): B; links(links: DashboardLinkBuilder[]): B },
>(builder: B, { title, description, runbook }: PanelText): B {
  builder.title(title).description(description);
  if (runbook === undefined) return builder;
  return builder.links([
    new DashboardLinkBuilder('Runbook')
      .type(DashboardLinkType.Link)
      .url(`\${runbooks}/docs/runbooks/${runbook}`)
      .targetBlank(true),
  ]);
}

function placed(panel: Panel, width: number, height: number): PlacedPanel {
  return { panel, width, height };
}
