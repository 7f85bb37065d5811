import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { parse } from 'yaml';
import { findLogqlProblems, lineFilters, matchesLine } from '../../alerting/src/check-logql.ts';
import { findPromqlProblems, metricSelectors } from '../../alerting/src/check-promql.ts';
import { findUnknownValues, knownLabelValues, metricCatalogue } from '../../alerting/src/known-metrics.ts';
import { renderManifests } from '../../alerting/src/render-manifests.ts';
import { alertsOf, readRuleFiles } from '../../alerting/src/rule-files.ts';
import { FAILED_OUTCOMES } from '../../src/domain/job.ts';
import { createMetrics } from '../../src/infra/metrics.ts';

const root = join(import.meta.dirname, '../..');
const files = readRuleFiles();
const alerts = alertsOf(files);
const metricFiles = files.filter((file) => file.language === 'promql');
const metricRules = metricFiles.flatMap((file) => file.groups.flatMap((group) => group.rules));
const logAlerts = alerts.filter((alert) => alert.file.language === 'logql');

describe('every alert', () => {
  it.each(alerts)('$alert says how severe it is, what happened, and what to do', ({ alert, labels, annotations }) => {
    expect(['critical', 'warning']).toContain(labels?.severity);
    expect(annotations?.summary?.length).toBeGreaterThan(10);
    expect(annotations?.description?.length).toBeGreaterThan(20);
    const [path, anchor] = (annotations?.runbook_url ?? '').split('#');
    expect(anchor).toBe(alert.toLowerCase());
    expect(existsSync(join(root, path ?? ''))).toBe(true);
    const headings = readFileSync(join(root, path ?? ''), 'utf8').match(/^## .+$/gm) ?? [];
    expect(headings).toContain(`## ${alert}`);
  });

  it.each(['PodCrashLooping', 'LogCrashLoop', 'LogServiceCrashed', 'LogServiceStartRefused', 'DatabaseInstanceDown'])(
    '%s is no page: it is about one process of several',
    (name) => {
      expect(alerts.find(({ alert }) => alert === name)?.labels?.severity).toBe('warning');
    },
  );

  // Two groups would become one alert with the same labels, which Prometheus refuses.
  it.each(alerts)('$alert sets no label that its expression groups by', ({ expr, labels }) => {
    const grouped = [...expr.matchAll(/\bby\s*\(([^)]*)\)/g)].flatMap(([, names = '']) => names.split(/\s*,\s*/));
    expect(Object.keys(labels ?? {}).filter((label) => grouped.includes(label))).toEqual([]);
  });

  it('has a name of its own', () => {
    expect(new Set(alerts.map(({ alert }) => alert)).size).toBe(alerts.length);
  });

  it('belongs to every section of the runbooks', () => {
    const sections = readdirSync(join(root, 'docs/runbooks'))
      .filter((file) => file !== 'README.md')
      .flatMap((file) => readFileSync(join(root, 'docs/runbooks', file), 'utf8').match(/^## .+$/gm) ?? []);
    expect(sections.map((heading) => heading.slice(3)).sort()).toEqual(alerts.map(({ alert }) => alert).sort());
  });
});

describe('metric rules', () => {
  const recorded = metricRules.flatMap((rule) => (rule.record === undefined ? [] : [rule.record]));
  const { registry } = createMetrics();
  const catalogue = metricCatalogue(registry, recorded);

  it.each(metricRules.map((rule) => ({ name: rule.alert ?? rule.record ?? '', expr: rule.expr })))(
    '$name is PromQL over metrics and labels that exist',
    ({ expr }) => {
      expect(findPromqlProblems(expr)).toEqual([]);
      for (const { metric, labels } of metricSelectors(expr)) {
        expect([...catalogue.keys()]).toContain(metric);
        for (const label of labels) expect([...(catalogue.get(metric) ?? [])]).toContain(label);
      }
    },
  );

  it('name only values of labels that the service can give them, and so do their tests', async () => {
    const known = await knownLabelValues(registry);
    const expressions = [...metricRules.map(({ expr }) => expr), ...seriesOfRuleTests()];
    expect(findUnknownValues(expressions.flatMap(metricSelectors), known)).toEqual([]);
    const mistaken = metricSelectors('activity_sync_jobs_finished_total{result=~"stored|failed"}');
    expect(findUnknownValues(mistaken, known)).toEqual(['activity_sync_jobs_finished_total{result="failed"}']);
  });

  it.each(
    metricRules
      .filter(({ expr }) => metricSelectors(expr).some(({ metric }) => metric.startsWith('activity_sync')))
      .map(({ alert, record, expr }) => ({ name: alert ?? record ?? '', expr })),
  )('$name keeps one namespace apart from another: staging and production may share a cluster', ({ expr }) => {
    const groupings = [...expr.matchAll(/\b(?:sum|max|min|count|avg)\s*(?:by\s*\(([^)]*)\))?\s*\(/g)];
    for (const [, labels = ''] of groupings) expect(labels).toMatch(/\bnamespace\b/);
    expect(expr).not.toMatch(/\bon\s*\(\s*\)/);
  });

  it('see the first delivery that fails, since every code of an answer is counted from zero', async () => {
    const lines = (await registry.getSingleMetricAsString('activity_sync_webhook_ack_seconds')).split('\n');
    for (const code of ['200', '4xx', '500', '503'])
      expect(lines).toContain(`activity_sync_webhook_ack_seconds_count{code="${code}"} 0`);
  });

  it('count a job as failed for good when its status says so, unless the provider no longer has its activity', () => {
    const { expr = '' } = metricRules.find(({ alert }) => alert === 'ActivitySyncJobFailureRatioHigh') ?? {};
    const [failed] = metricSelectors(expr);
    expect(failed?.values.map(({ value }) => value)).toEqual(FAILED_OUTCOMES.filter((one) => one !== 'notFound'));
  });
});

/** The series that the tests of the rules are fed with. */
function seriesOfRuleTests(): string[] {
  const folder = join(root, 'alerting/tests');
  const tests = readdirSync(folder).filter((file) => file.endsWith('.test.yaml'));
  expect(tests.length).toBeGreaterThan(0);
  return tests.flatMap((file) =>
    (
      parse(readFileSync(join(folder, file), 'utf8')) as { tests: { input_series: { series: string }[] }[] }
    ).tests.flatMap(({ input_series }) => input_series.map(({ series }) => series)),
  );
}

describe('log rules', () => {
  it.each(logAlerts)('$alert is a LogQL metric query over five minutes that fires after one minute', (alert) => {
    expect(findLogqlProblems(alert.expr, 'metric')).toEqual([]);
    expect(
      alert.expr
        .match(/\[[^\]]+\]/g)
        ?.filter((range) => /^\[\d/.test(range))
        .every((range) => range === '[5m]'),
    ).toBe(true);
    const limits = [...alert.expr.matchAll(/\) > (\d+)/g)].map(([, limit]) => limit);
    expect(limits).toEqual(alert.alert === 'LogAuthenticationFailure' ? ['50', '3'] : limits.map(() => '0'));
    expect(alert.for).toBe('1m');
  });

  // Without a line filter such a query is valid PromQL too, would load as a metric rule, and never fire.
  it.each(logAlerts)('$alert filters lines in each of its queries', ({ expr }) => {
    for (const filters of lineFilters(expr)) expect(filters.length).toBeGreaterThan(0);
    expect(findPromqlProblems(expr)).not.toEqual([]);
  });

  it.each(logAlerts.filter(({ expr }) => expr.includes('namespace=~')))(
    '$alert leaves out the log store, which logs the queries that it runs',
    ({ expr }) => {
      const selectors = expr.match(/\{[^}]*\}/g) ?? [];
      for (const selector of selectors)
        expect(selector).toMatch(/namespace!="monitoring"|source="events"|namespace="activity-sync"/);
    },
  );

  it('contain the four documented queries', () => {
    const filterOf = (alert: string) =>
      lineFilters(logAlerts.find((rule) => rule.alert === alert)?.expr ?? '')[0]?.[0]?.value;
    expect(filterOf('LogDatabaseIoError')).toContain('[Ii]nput/output error');
    expect(filterOf('LogWebFatalError')).toBe('Fatal error|PHP Fatal');
    expect(filterOf('LogCrashLoop')).toMatch(/^OOMKilled\|CrashLoopBackOff/);
    expect(filterOf('LogAuthenticationFailure')).toBe('[Aa]ccess denied|[Aa]uthentication failed');
  });

  const lines = parse(readFileSync(join(root, 'alerting/tests/log-lines.yaml'), 'utf8')) as Record<
    string,
    { matches: string[]; ignores: string[] }
  >;

  it.each(logAlerts)('$alert knows the lines that mean it from those that do not', ({ alert, expr }) => {
    expect(lines[alert]?.matches.length).toBeGreaterThan(0);
    expect(lines[alert]?.ignores.length).toBeGreaterThan(0);
    for (const line of lines[alert]?.matches ?? []) expect([line, matchesLine(expr, line)]).toEqual([line, true]);
    for (const line of lines[alert]?.ignores ?? []) expect([line, matchesLine(expr, line)]).toEqual([line, false]);
  });
});

describe('the checks of the queries themselves', () => {
  it.each([
    ['sum(count_over_time({a="b"} |~ `x(` [5m])) > 0', 'bad regular expression'],
    ['sum(count_over_time({a="b"} |~ `(?!x)y` [5m])) > 0', 'RE2'],
    ['sum(count_over_time({a=~".*"} |~ `x` [5m])) > 0', 'every stream'],
    ['{a="b"} |~ `x`', 'not a metric query'],
    ['up{job="x"} == 0', 'does not parse'],
  ])('refuse %s', (expr, problem) => {
    expect(findLogqlProblems(expr, 'metric').join()).toContain(problem);
  });

  it('refuse broken PromQL', () => {
    expect(findPromqlProblems('sum(rate(up[5m])')).not.toEqual([]);
    expect(findPromqlProblems('sum(rate(up[5m]))')).toEqual([]);
  });
});

describe('the Kubernetes resources of the rules', () => {
  const manifests = renderManifests(files);

  it('are committed as they are written', () => {
    const folder = join(root, 'alerting/manifests');
    const committed = new Map(readdirSync(folder).map((file) => [file, readFileSync(join(folder, file), 'utf8')]));
    expect(committed).toEqual(manifests);
  });

  it('carry the label release, and log rules one more that keeps the operator away', () => {
    for (const { name, language } of files) {
      const { kind, metadata } = parse(manifests.get(`${name}.yaml`) ?? '');
      expect(kind).toBe('PrometheusRule');
      expect(metadata).toMatchObject({ namespace: 'monitoring' });
      expect(metadata.labels).toEqual({
        release: `\${STACK_RELEASE_NAME}`,
        ...(language === 'logql' ? { 'rules.kind': 'logql' } : {}),
      });
    }
  });

  it('hold the same log rules for the operator and for the log store', () => {
    const rule = parse(manifests.get('logs.yaml') ?? '');
    const configMap = parse(manifests.get('logs-configmap.yaml') ?? '');
    expect(configMap.metadata.labels).toHaveProperty('loki_rule');
    expect(parse(configMap.data['activity-sync-logs.yaml'])).toEqual(rule.spec);
  });

  it('leave nothing for Flux to replace but the settings', () => {
    const settings = parse(readFileSync(join(root, 'k8s/flux/settings.yaml'), 'utf8')).data;
    for (const text of manifests.values()) {
      for (const [, name] of text.matchAll(/\$\{([^}]*)\}/g)) expect(Object.keys(settings)).toContain(name);
    }
  });
});
