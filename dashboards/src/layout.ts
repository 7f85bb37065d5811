import {
  type AnnotationQuery,
  type Dashboard,
  DashboardBuilder,
  DashboardCursorSync,
  DashboardLinkBuilder,
  DashboardLinkType,
  DatasourceVariableBuilder,
  QueryVariableBuilder,
  RowBuilder,
  TextBoxVariableBuilder,
  VariableRefresh,
} from '@grafana/grafana-foundation-sdk/dashboard';
import { readSettings } from '../../k8s/src/read-layers.ts';
import { METRICS, type PlacedPanel } from './panels.ts';

const ROW_WIDTH = 24;
/** The value of both variables when a dashboard is opened for the first time. */
const DEFAULT_SCOPE = 'activity-sync';

/** Annotations on each chart: new images, and firing alerts, including those without a namespace. */
const ANNOTATIONS = [
  annotation(
    'Deployments',
    'blue',
    // An image that was not there two minutes ago; a restart or another replica is not a deployment.
    'count by (image) (kube_pod_container_info{namespace=~"$namespace",container="activity-sync"}) unless count by (image) (kube_pod_container_info{namespace=~"$namespace",container="activity-sync"} offset 2m)',
    '{{image}}',
  ),
  annotation(
    'Alerts',
    'red',
    'ALERTS{namespace=~"$namespace|",alertstate="firing",alertname!~"Watchdog|InfoInhibitor"}',
    '{{alertname}}',
  ),
];

export interface Row {
  title: string;
  panels: PlacedPanel[];
}

/** A dashboard as it is in a file: with the inputs that Grafana requests when it is imported manually. */
export type DashboardFile = Dashboard & { __inputs: object[]; __requires: object[] };

/**
 * Lays out rows of panels, each row under its title, and numbers the panels.
 *
 * The data sources are variables of the dashboard. A manual import fills them from the inputs; a dashboard that the
 * sidecar loads takes the first data source of the type. Flux fills in nothing here, so the address of the runbooks
 * is taken from the settings when the file is written.
 */
export function layOut(text: { uid: string; title: string; description: string }, rows: Row[]): DashboardFile {
  const builder = new DashboardBuilder(text.title)
    .uid(text.uid)
    .description(text.description)
    .tags(['activity-sync'])
    .timezone('browser')
    .refresh('30s')
    .time({ from: 'now-6h', to: 'now' })
    .tooltip(DashboardCursorSync.Crosshair)
    .readonly()
    .withVariable(dataSourceVariable('metrics', 'Metrics', 'prometheus', 'DS_METRICS'))
    .withVariable(dataSourceVariable('logs', 'Logs', 'loki', 'DS_LOGS'))
    .withVariable(scopeVariable('namespace', 'Namespace', 'label_values(activity_sync_heap_limit_bytes, namespace)'))
    .withVariable(
      scopeVariable('job', 'Job', 'label_values(activity_sync_heap_limit_bytes{namespace=~"$namespace"}, job)'),
    )
    .withVariable(
      new TextBoxVariableBuilder('runbooks').label('Runbooks').defaultValue(readSettings().RUNBOOK_BASE_URL ?? ''),
    )
    .link(
      new DashboardLinkBuilder('Runbooks')
        .type(DashboardLinkType.Link)
        .icon('doc')
        .url(`\${runbooks}/docs/runbooks/README.md`)
        .targetBlank(true),
    )
    .link(
      new DashboardLinkBuilder('Dashboards').type(DashboardLinkType.Dashboards).tags(['activity-sync']).keepTime(true),
    );
  const dashboard = builder.build();
  dashboard.panels = placePanels(rows);
  dashboard.annotations = { list: [...ANNOTATIONS] };
  return {
    __inputs: [
      {
        name: 'DS_METRICS',
        label: 'Metrics',
        description: '',
        type: 'datasource',
        pluginId: 'prometheus',
        pluginName: 'Prometheus',
      },
      { name: 'DS_LOGS', label: 'Logs', description: '', type: 'datasource', pluginId: 'loki', pluginName: 'Loki' },
    ],
    __requires: [
      { type: 'grafana', id: 'grafana', name: 'Grafana', version: '11.0.0' },
      { type: 'datasource', id: 'prometheus', name: 'Prometheus', version: '1.0.0' },
      { type: 'datasource', id: 'loki', name: 'Loki', version: '1.0.0' },
    ],
    ...dashboard,
  };
}

function placePanels(rows: Row[]): NonNullable<Dashboard['panels']> {
  const panels: NonNullable<Dashboard['panels']> = [];
  let id = 0;
  let y = 0;
  for (const row of rows) {
    id += 1;
    panels.push(new RowBuilder(row.title).id(id).gridPos({ h: 1, w: ROW_WIDTH, x: 0, y }).build());
    y += 1;
    let x = 0;
    let lineHeight = 0;
    for (const { panel, width, height } of row.panels) {
      if (x + width > ROW_WIDTH) {
        x = 0;
        y += lineHeight;
        lineHeight = 0;
      }
      id += 1;
      panels.push({ ...panel, id, gridPos: { h: height, w: width, x, y } });
      x += width;
      lineHeight = Math.max(lineHeight, height);
    }
    y += lineHeight;
  }
  return panels;
}

function scopeVariable(name: string, label: string, query: string): QueryVariableBuilder {
  return new QueryVariableBuilder(name)
    .label(label)
    .query(query)
    .datasource(METRICS)
    .refresh(VariableRefresh.OnTimeRangeChanged)
    .current({ selected: true, text: DEFAULT_SCOPE, value: DEFAULT_SCOPE });
}

function annotation(name: string, iconColor: string, expr: string, titleFormat: string): AnnotationQuery {
  return { name, enable: true, iconColor, datasource: METRICS, expr, titleFormat, step: '1m' } as AnnotationQuery;
}

function dataSourceVariable(name: string, label: string, type: string, input: string): DatasourceVariableBuilder {
  return new DatasourceVariableBuilder(name)
    .label(label)
    .type(type)
    .allowCustomValue(false)
    .current({ selected: false, text: `\${${input}}`, value: `\${${input}}` });
}
