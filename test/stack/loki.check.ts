import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { parse } from 'yaml';
import { findProgram } from '../../alerting/src/find-program.ts';
import { type LocalProgram, startAlertmanager } from '../../alerting/src/local-stack.ts';
import { alertsOf, readRuleFiles } from '../../alerting/src/rule-files.ts';
import { readAlertmanagerConfig } from '../../k8s/src/read-layers.ts';
import { findBuilt } from '../../tools/programs.ts';
import { keepLog } from '../support/kept-log.ts';
import { findResource } from '../support/manifests.ts';
import { startRig } from '../support/service.ts';
import { until } from '../support/until.ts';
import { type LocalLoki, RENDERED_CONFIG, startLoki } from './loki.ts';

const MINUTE_MS = 60_000;
const HALF_HOUR_MS = 30 * MINUTE_MS;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
const SLOT_MS = 10 * MINUTE_MS; // twice the window of the rules, so that no line counts in the slot of the next
const SAMPLES = parse(readFileSync(join(import.meta.dirname, '../../alerting/tests/log-lines.yaml'), 'utf8')) as Record<
  string,
  { matches: string[]; ignores: string[] }
>;
const alerts = alertsOf(readRuleFiles().filter(({ language }) => language === 'logql'));
/** Every sample line in ten minutes of its own, so that a query over all of them tells which lines a rule finds. */
const slots = alerts.flatMap(({ alert, expr }) => {
  const { matches, ignores } = SAMPLES[alert] ?? { matches: [], ignores: [] };
  const sample = (found: boolean) => (line: string) => ({ alert, expr, line, found });
  return [...matches.map(sample(true)), ...ignores.map(sample(false))];
});
const thisHour = Math.floor(Date.now() / HOUR_MS) * HOUR_MS;
const startOf = (slot: number) => thisHour - HOUR_MS - (slots.length - slot) * SLOT_MS;
const dayEnd = thisHour - 2 * DAY_MS;

/** What the collectors set on a line: Alloy's configuration, and `stream` from its CRI stage. */
const podLabels = (pod: string, container: string, namespace = 'activity-sync') => ({
  namespace,
  pod,
  container,
  source: 'pods',
  stream: 'stdout',
});
const eventLabels = (namespace: string) => ({
  namespace,
  source: 'events',
  job: 'loki.source.kubernetes_events.cluster',
  instance: 'loki.source.kubernetes_events.cluster',
});
/** The stream in which a line of some rule's samples arrives. */
const streamOf = (alert: string, expr: string, line: string) => {
  if (/ kind=\w+ .*reason=/.test(line)) return eventLabels('activity-sync');
  if (alert === 'LogCrashLoop' || alert === 'LogAuthenticationFailure') return podLabels('shop-0', 'shop', 'shop');
  return podLabels(`sample-${alert.toLowerCase()}`, /container="([^"]+)"/.exec(expr)?.[1] ?? '');
};

let folder: string;
let alertmanager: LocalProgram;
let loki: LocalLoki;
let serviceLines: string[];

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'ruler-'));
  const program = findProgram('prometheus-alertmanager', 'prometheus-alertmanager', 'that log rules reach it');
  alertmanager = await startAlertmanager({
    program: program as string,
    folder,
    config: readAlertmanagerConfig(),
    webhookUrl: 'http://127.0.0.1:1', // what it sends on is another check's subject
  });
  loki = await startLoki({
    rules: findResource('ConfigMap', 'activity-sync-logs').data,
    alertmanagerUrl: alertmanager.url,
  });
  serviceLines = await runServiceForItsLines();
  // The oldest first: Loki refuses what is hours behind the newest line of its stream.
  await pushHealthyDay();
  await pushSamples();
}, 180_000);
afterAll(async () => {
  await (loki as LocalLoki | undefined)?.stop();
  await (alertmanager as LocalProgram | undefined)?.stop();
  rmSync(folder, { recursive: true });
});

describe("Loki's configuration", () => {
  it('is what the chart renders from our values', () => {
    const { loki: values } = findResource('HelmRelease', 'loki').spec.values;
    expect(parse(readFileSync(RENDERED_CONFIG, 'utf8'))).toMatchObject({
      auth_enabled: values.auth_enabled,
      common: values.commonConfig,
      limits_config: values.limits_config,
      compactor: values.compactor,
      ruler: values.rulerConfig,
      schema_config: values.schemaConfig,
    });
  });

  it('is valid for Loki', () => {
    const args = [`-config.file=${RENDERED_CONFIG}`, '-config.expand-env=true', '-target=all', '-verify-config'];
    const answer = execFileSync(findBuilt('loki'), args, { stdio: ['ignore', 'pipe', 'pipe'] });
    expect(answer.toString()).not.toContain('error');
  });

  it('makes it ready: /ready answers 200', async () => {
    const answer = await fetch(`${loki.url}/ready`);
    expect([answer.status, (await answer.text()).trim()]).toEqual([200, 'ready']);
  });
});

describe('the labels of the pushed lines', () => {
  it("are those that the collectors' configurations set", () => {
    const { content } = findResource('HelmRelease', 'alloy').spec.values.alloy.configMap;
    const set = [...content.matchAll(/target_label\s*=\s*"(\w+)"/g)].map(([, label]) => label);
    expect(Object.keys(podLabels('', '')).sort()).toEqual(
      [...set, 'stream'].filter((one) => one !== '__path__').sort(),
    );
    const events = findResource('HelmRelease', 'alloy-events').spec.values.alloy.configMap.content;
    expect(events).toContain(`source = "${eventLabels('').source}"`);
  });
});

describe("Loki's ruler", () => {
  it('loads every log rule without an error', async () => {
    const { data } = await loki.get<RulesAnswer>('/prometheus/api/v1/rules');
    const rules = data.groups.flatMap((group) => group.rules);
    expect(rules.map(({ name }) => name).sort()).toEqual(alerts.map(({ alert }) => alert).sort());
    expect(rules.filter(({ health }) => health === 'err')).toEqual([]);
  });

  describe('finds the sample lines of each rule, and no other of them', () => {
    it.each(alerts)('$alert', async ({ alert, expr }) => {
      const series = await loki.queryRange(expr, startOf(0), startOf(slots.length));
      const times = series.flatMap(({ values }) => values.map(([seconds]) => seconds * 1000));
      const own = slots.map((slot, index) => ({ ...slot, index })).filter((slot) => slot.alert === alert);
      expect(own.length).toBeGreaterThan(1);
      for (const { line, found, index } of own) {
        const isHit = times.some((at) => at > startOf(index) && at < startOf(index + 1));
        expect([line, isHit]).toEqual([line, found]);
      }
    });
  });

  describe('is silent about a healthy day', () => {
    it.each(alerts)('$alert', async ({ expr }) => {
      expect(await loki.queryRange(expr, dayEnd - DAY_MS, dayEnd)).toEqual([]);
    });

    it('which it did keep: the lines are there', async () => {
      const [all] = await loki.queryRange('sum(count_over_time({namespace=~".+"}[1h]))', dayEnd - DAY_MS, dayEnd);
      expect(all?.values.length).toBeGreaterThan(1400);
    });
  });

  it('fires nothing while the lines of the service, the database and Loki itself are healthy, then each rule for its line', async () => {
    for (const [stream, lines] of healthyStreams()) await loki.push(stream, nowAll(lines));
    await loki.push(podLabels('loki-0', 'loki', 'monitoring'), nowAll(loki.log()));
    const isEvaluated = async (since: number) => {
      const { data } = await loki.get<RulesAnswer>('/prometheus/api/v1/rules');
      return data.groups.every(({ lastEvaluation }) => Date.parse(lastEvaluation) > since);
    };
    const pushedAt = Date.now();
    await until(() => isEvaluated(pushedAt), 'an evaluation of every group', 90_000);
    expect(await firing()).toEqual([]);

    for (const { alert, expr } of alerts) {
      const line = SAMPLES[alert]?.matches[0] ?? '';
      await loki.push(streamOf(alert, expr, line), enough(expr, line, Date.now()));
    }
    await until(async () => (await firing()).length >= alerts.length, 'every log rule firing', 200_000);
    expect(await firing()).toEqual(alerts.map(({ alert, labels }) => [alert, labels?.severity]).sort());
  }, 300_000);
});

interface RulesAnswer {
  data: { groups: { lastEvaluation: string; rules: { name: string; health: string }[] }[] };
}

/** Every alert that the Alertmanager has, by name and severity, without those for other series of the same rule. */
async function firing(): Promise<[string, string][]> {
  const answer = await fetch(`${alertmanager.url}/api/v2/alerts`);
  const known = (await answer.json()) as { labels: { alertname: string; severity: string } }[];
  return [...new Map(known.map(({ labels }) => [labels.alertname, labels.severity])).entries()].sort();
}

function nowAll(lines: string[]) {
  const at = Date.now();
  return lines.map((line) => ({ at, line }));
}

/** A line as often as the highest threshold of a rule wants it, each a millisecond after the one before. */
function enough(expr: string, line: string, at: number) {
  const limits = [...expr.matchAll(/\) > (\d+)/g)].map(([, limit]) => Number(limit));
  return Array.from({ length: Math.max(...limits) + 1 }, (_, index) => ({ at: at + index, line }));
}

/** Streams of a cluster in which nothing is wrong: real lines of the service, and the samples that no rule is for. */
function healthyStreams(): [Record<string, string>, string[]][] {
  const quiet = (alert: string) => SAMPLES[alert]?.ignores ?? [];
  return [
    [podLabels('activity-sync-web-1', 'activity-sync'), serviceLines],
    [
      podLabels('activity-sync-db-1', 'postgres'),
      ['LogDatabaseIoError', 'LogDatabaseRefusesConnections', 'LogAuthenticationFailure'].flatMap(quiet),
    ],
    [eventLabels('activity-sync'), quiet('LogCrashLoop')],
  ];
}

async function pushHealthyDay(): Promise<void> {
  for (const [stream, lines] of healthyStreams()) {
    const repeated = [];
    for (let at = dayEnd - DAY_MS; at < dayEnd; at += HALF_HOUR_MS)
      repeated.push(...lines.map((line) => ({ at, line })));
    await loki.push(stream, repeated);
  }
}

async function pushSamples(): Promise<void> {
  for (const [slot, { alert, expr, line }] of slots.entries())
    await loki.push(streamOf(alert, expr, line), enough(expr, line, startOf(slot) + MINUTE_MS / 2));
}

/** Starts a service, sends it through its work, stops it, and returns what it logged. */
async function runServiceForItsLines(): Promise<string[]> {
  const { logger, lines } = keepLog('info');
  const rig = await startRig({ logger });
  try {
    rig.simulator.subscribe(`${rig.service.url}/api/provider/webhook`);
    const athleteId = await rig.connectAthlete();
    const { id } = await rig.simulator.createActivityAndNotify(athleteId, {});
    await rig.untilJob(id, ({ status }) => status === 'done');
    await rig.simulator.deleteActivityAndNotify(id);
    await rig.admin('/api/admin/activity-jobs');
    await fetch(`${rig.service.url}/api/admin/activity-jobs`); // a visitor without a token
    await rig.admin(`/api/admin/athletes/${athleteId}/sync`, { method: 'POST' });
  } finally {
    await rig.close();
  }
  return lines.map((line) => line.trimEnd());
}
