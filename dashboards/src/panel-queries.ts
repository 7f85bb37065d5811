export interface PanelQuery {
  panel: string;
  language: 'promql' | 'logql';
  expr: string;
}

interface DashboardJson {
  panels: { title: string; targets?: { expr: string; datasource: { type: string } }[] }[];
}

/** Every query of a dashboard file. */
export function panelQueries(dashboard: DashboardJson): PanelQuery[] {
  return dashboard.panels.flatMap((panel) =>
    (panel.targets ?? []).map(({ expr, datasource }) => ({
      panel: panel.title,
      language: datasource.type === 'loki' ? 'logql' : 'promql',
      expr,
    })),
  );
}

/** A query with what Grafana would fill in, so that a parser or a server takes it: any namespace and job, and a window. */
export function withoutGrafanaVariables(expr: string, window = '5m'): string {
  return expr
    .replaceAll(/\$__(?:rate_interval|range|interval|auto)/g, window)
    .replaceAll(/\$(?:namespace|job)\b/g, '.*');
}
