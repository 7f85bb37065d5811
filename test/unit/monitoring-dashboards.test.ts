import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { parse } from 'yaml';
import { findLogqlProblems } from '../../alerting/src/check-logql.ts';
import { findPromqlProblems, metricSelectors } from '../../alerting/src/check-promql.ts';
import { metricCatalogue } from '../../alerting/src/known-metrics.ts';
import { readRuleFiles } from '../../alerting/src/rule-files.ts';
import { panelQueries, withoutGrafanaVariables } from '../../dashboards/src/panel-queries.ts';
import { renderDashboards } from '../../dashboards/src/write-dashboards.ts';
import { createMetrics } from '../../src/infra/metrics.ts';

const root = join(import.meta.dirname, '../..');
const dashboards = [...renderDashboards()].map(([file, text]) => ({ file, text, dashboard: JSON.parse(text) }));
const queries = dashboards.flatMap(({ dashboard }) => panelQueries(dashboard));
const recorded = readRuleFiles().flatMap(({ groups }) =>
  groups.flatMap(({ rules }) => rules.flatMap((rule) => rule.record ?? [])),
);
const catalogue = metricCatalogue(createMetrics().registry, recorded);

describe.each(dashboards)('the dashboard $file', ({ file, text, dashboard }) => {
  it('is committed as it is built', () => {
    expect(readFileSync(join(root, 'dashboards', file), 'utf8')).toBe(text);
  });

  it('requests both data sources when it is imported manually', () => {
    expect(dashboard.__inputs.map((input: { name: string }) => input.name)).toEqual(['DS_METRICS', 'DS_LOGS']);
    for (const input of dashboard.__inputs) expect(text).toContain(`"value": "\${${input.name}}"`);
  });

  it('numbers its panels and lays them out without overlap', () => {
    const ids = dashboard.panels.map((panel: { id: number }) => panel.id);
    expect(new Set(ids).size).toBe(ids.length);
    const taken = new Set<string>();
    for (const { gridPos } of dashboard.panels) {
      for (let x = gridPos.x; x < gridPos.x + gridPos.w; x += 1) {
        for (let y = gridPos.y; y < gridPos.y + gridPos.h; y += 1) {
          expect(taken.has(`${x},${y}`)).toBe(false);
          taken.add(`${x},${y}`);
        }
      }
      expect(gridPos.x + gridPos.w).toBeLessThanOrEqual(24);
    }
  });

  it('says what each panel shows, and links to runbook sections that exist', () => {
    for (const panel of dashboard.panels.filter((panel: { type: string }) => panel.type !== 'row')) {
      expect(panel.title.length).toBeGreaterThan(0);
      expect(panel.description.length).toBeGreaterThan(0);
      for (const { url } of panel.links ?? []) {
        const [path, anchor] = url.replace(`\${runbooks}/`, '').split('#');
        expect(existsSync(join(root, path))).toBe(true);
        const anchors = (readFileSync(join(root, path), 'utf8').match(/^## .+$/gm) ?? []).map((h) =>
          h.slice(3).toLowerCase(),
        );
        expect(anchors).toContain(anchor);
      }
    }
  });
});

describe('every query of the dashboards', () => {
  it.each(queries.filter(({ language }) => language === 'promql'))('$panel: $expr names what exists', ({ expr }) => {
    const plain = withoutGrafanaVariables(expr);
    expect(findPromqlProblems(plain)).toEqual([]);
    for (const { metric, labels } of metricSelectors(plain)) {
      expect([...catalogue.keys()]).toContain(metric);
      for (const label of labels) expect([...(catalogue.get(metric) ?? [])]).toContain(label);
    }
  });

  it.each(queries.filter(({ language }) => language === 'logql'))('$panel: $expr finds log lines', ({ expr }) => {
    expect(findLogqlProblems(withoutGrafanaVariables(expr), 'log')).toEqual([]);
  });

  it('has a reference of its own within its panel', () => {
    for (const { dashboard } of dashboards) {
      for (const panel of dashboard.panels) {
        const references = (panel.targets ?? []).map((target: { refId: string }) => target.refId);
        expect(references.every((reference: string) => /^[A-Z]$/.test(reference))).toBe(true);
        expect(new Set(references).size).toBe(references.length);
      }
    }
  });

  it('shows each metric of the service somewhere, in a panel or an alert', () => {
    const used = new Set(
      [
        ...queries.flatMap(({ language, expr }) =>
          language === 'promql' ? metricSelectors(withoutGrafanaVariables(expr)) : [],
        ),
        ...readRuleFiles()
          .filter(({ language }) => language === 'promql')
          .flatMap(({ groups }) => groups.flatMap(({ rules }) => rules.flatMap(({ expr }) => metricSelectors(expr)))),
      ].map(({ metric }) => metric.replace(/_(bucket|sum|count)$/, '')),
    );
    const own = createMetrics()
      .registry.getMetricsAsArray()
      .map(({ name }) => name)
      .filter((name) => name.startsWith('activity_sync_'));
    expect(own.filter((name) => !used.has(name))).toEqual([]);
  });
});

describe('the scope of a dashboard', () => {
  const own = /^(activity_sync_|nodejs_|process_)/;

  it.each(dashboards)('of $file is a namespace and a job, which the reader chooses', ({ dashboard }) => {
    const names = dashboard.templating.list.map(({ name }: { name: string }) => name);
    expect(names).toEqual(['metrics', 'logs', 'namespace', 'job', 'runbooks']);
  });

  it.each(queries.filter(({ language }) => language === 'promql'))(
    '$panel: $expr keeps staging apart from production',
    ({ expr }) => {
      for (const { metric, labels } of metricSelectors(withoutGrafanaVariables(expr))) {
        if (own.test(metric)) expect(labels).toEqual(expect.arrayContaining(['namespace', 'job']));
        if (/^activity_sync:/.test(metric)) expect(labels).toContain('namespace');
      }
      expect(expr).not.toContain('namespace="activity-sync"');
    },
  );

  it('does not narrow what the dashboard of the stack shows of all: targets, and the liveness alert', () => {
    const [, stack] = dashboards;
    const exprs = panelQueries(stack?.dashboard).map(({ expr }) => expr);
    expect(exprs).toContain('sum by (job) (1 - up)');
    expect(exprs).toContain('count(ALERTS{alertname="Watchdog",alertstate="firing"}) or vector(0)');
  });

  it.each(dashboards)('holds for the marks on the charts of $file: deployments and alerts', ({ dashboard }) => {
    const marks: { name: string; expr: string }[] = dashboard.annotations.list;
    expect(marks.map(({ name }) => name)).toEqual(['Deployments', 'Alerts']);
    for (const { expr } of marks) {
      expect(findPromqlProblems(withoutGrafanaVariables(expr))).toEqual([]);
      for (const { metric, labels } of metricSelectors(withoutGrafanaVariables(expr))) {
        expect([...catalogue.keys()]).toContain(metric);
        expect(labels).toContain('namespace');
      }
    }
  });
});

describe('a chart that counts', () => {
  type ChartJson = { title: string; type: string; interval?: string; targets?: { expr: string }[] };
  const charts: ChartJson[] = dashboards
    .flatMap(({ dashboard }) => dashboard.panels)
    .filter(({ type }: { type: string }) => type === 'timeseries');
  const counting = charts.filter(({ targets = [] }) => targets.some(({ expr }) => /\bincrease\(/.test(expr)));

  it.each(counting)('$title has each event in one step, and steps of several scrapes', ({ targets = [], interval }) => {
    for (const { expr } of targets) expect(expr).not.toMatch(/increase\([^[]*\[\$__rate_interval\]/);
    expect(interval).toBe('1m');
  });
});

describe('what a panel shows', () => {
  type PanelJson = {
    title: string;
    type: string;
    targets?: { expr: string; legendFormat: string; instant?: boolean }[];
    fieldConfig?: { defaults: { unit?: string }; overrides: { matcher: { options: string } }[] };
  };
  const panels: PanelJson[] = dashboards.flatMap(({ dashboard }) => dashboard.panels);

  it.each(panels.filter(({ fieldConfig }) => fieldConfig?.defaults.unit === 's'))(
    '$title measures time in seconds, and counts without a unit',
    ({ targets = [], fieldConfig }) => {
      const counts = targets.filter(({ expr }) => /^sum(\(| by \(\w+\) \()increase\(/.test(expr));
      for (const { legendFormat } of counts)
        expect(fieldConfig?.overrides.some(({ matcher }) => new RegExp(matcher.options).test(legendFormat))).toBe(true);
    },
  );

  it.each(panels.filter(({ type }) => type === 'stat'))(
    '$title as it is now, not as it was when there was a last value',
    ({ targets = [] }) => {
      expect(targets.map(({ instant }) => instant)).toEqual(targets.map(() => true));
    },
  );

  it.each(dashboards)('links of $file lead to the runbooks of the settings, as those of alerts do', ({ dashboard }) => {
    const variable = dashboard.templating.list.find(({ name }: { name: string }) => name === 'runbooks');
    const { data } = parse(readFileSync(join(root, 'k8s/flux/settings.yaml'), 'utf8'));
    expect(variable.query).toBe(data.RUNBOOK_BASE_URL);
  });
});

describe('the resource that carries the dashboards', () => {
  const kustomization = parse(readFileSync(join(root, 'dashboards/kustomization.yaml'), 'utf8'));

  it('keeps Flux from filling in what is for Grafana', () => {
    expect(kustomization.generatorOptions.annotations['kustomize.toolkit.fluxcd.io/substitute']).toBe('disabled');
  });

  it('holds every dashboard under a name that the sidecar takes', () => {
    const files = kustomization.configMapGenerator.flatMap(({ files }: { files: string[] }) => files);
    expect(files.sort()).toEqual([...renderDashboards().keys()].sort());
    for (const file of files) expect(file).toMatch(/\.json$/);
  });
});
