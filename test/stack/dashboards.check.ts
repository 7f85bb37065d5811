import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setInterval as every } from 'node:timers/promises';
import { afterAll, beforeAll, describe, it } from '@jest/globals';
import { findProgram } from '../../alerting/src/find-program.ts';
import { type LocalProgram, startAlertmanager, startPrometheus } from '../../alerting/src/local-stack.ts';
import { readRuleFiles } from '../../alerting/src/rule-files.ts';
import { type PanelQuery, panelQueries, withoutGrafanaVariables } from '../../dashboards/src/panel-queries.ts';
import { readAlertmanagerConfig } from '../../k8s/src/read-layers.ts';
import { keepLog } from '../support/kept-log.ts';
import { findResource } from '../support/manifests.ts';
import { type Rig, startRig } from '../support/service.ts';
import { until } from '../support/until.ts';
import { type LocalLoki, startLoki } from './loki.ts';

const WINDOW = '10s';
const RANGE_MS = 60_000;
const DELIVERY_EVERY_MS = 500;
const DASHBOARDS = ['activity-sync.json', 'activity-sync-stack.json'];
const rules = readRuleFiles().filter(({ name, language }) => language === 'promql' && name !== 'platform');

/** Samples of the exporters that only a cluster has, with the labels that theirs have. */
const OF_A_CLUSTER = `
kube_pod_container_info{namespace="activity-sync",pod="activity-sync-web-1",container="activity-sync",image="activity-sync:RISING"} 1
kube_pod_status_phase{namespace="shop",pod="shop-0",phase="Pending"} 1
kube_pod_container_status_restarts_total{namespace="shop",pod="shop-0",container="shop"} RISING
kube_pod_container_resource_requests{namespace="activity-sync",pod="activity-sync-web-1",container="activity-sync",resource="cpu"} 0.1
kubelet_volume_stats_available_bytes{namespace="monitoring",persistentvolumeclaim="loki"} 5e9
kubelet_volume_stats_capacity_bytes{namespace="monitoring",persistentvolumeclaim="loki"} 3e10
container_memory_working_set_bytes{namespace="activity-sync",pod="activity-sync-web-1",container="activity-sync"} 2e8
container_cpu_usage_seconds_total{namespace="activity-sync",pod="activity-sync-web-1",container="activity-sync"} RISING
node_memory_MemAvailable_bytes{instance="node-1"} 5e9
node_memory_MemTotal_bytes{instance="node-1"} 1e10
node_cpu_seconds_total{instance="node-1",cpu="0",mode="idle"} RISING
cnpg_collector_up{namespace="activity-sync",pod="activity-sync-db-1"} 1
cnpg_pg_replication_lag{namespace="activity-sync",pod="activity-sync-db-2"} 0.5
barman_cloud_cloudnative_pg_io_last_available_backup_timestamp{namespace="activity-sync",pod="activity-sync-db-1"} NOW
velero_backup_last_successful_timestamp{schedule="velero-monitoring-volumes"} NOW
gotk_resource_info{customresource_kind="HelmRelease",exported_namespace="monitoring",name="loki",ready="False"} 1
loki_write_sent_entries_total{instance="node-1"} RISING
loki_write_dropped_entries_total{instance="node-1"} RISING
alertmanager_notifications_total{integration="slack"} RISING
alertmanager_notifications_failed_total{integration="slack"} RISING
prometheus_rule_evaluation_failures_total{rule_group="broken"} RISING
`;

let folder: string;
let exporter: Server;
let alertmanager: LocalProgram;
let loki: LocalLoki;
let rig: Rig;
let prometheus: LocalProgram;
let deliveries: ReturnType<typeof keepDelivering> | undefined;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'dashboards-'));
  exporter = await startClusterExporter();
  alertmanager = await startAlertmanager({
    program: findProgram('prometheus-alertmanager', 'prometheus-alertmanager', 'the dashboards') as string,
    folder,
    config: readAlertmanagerConfig(),
    webhookUrl: 'http://127.0.0.1:1',
  });
  loki = await startLoki({
    rules: findResource('ConfigMap', 'activity-sync-logs').data,
    alertmanagerUrl: alertmanager.url,
  });
  const { logger, lines } = keepLog('info');
  rig = await startRig({ logger, env: { FETCH_BACKOFF_BASE_MS: '100', PROVIDER_AUTO_SYNC_ENABLED: 'true' } });
  prometheus = await startPrometheus({
    program: findProgram('prometheus', 'prometheus', 'the dashboards') as string,
    folder,
    targets: [new URL(rig.service.url).host],
    otherJobs: {
      cluster: [`127.0.0.1:${(exporter.address() as AddressInfo).port}`],
      alertmanager: [new URL(alertmanager.url).host],
      loki: [new URL(loki.url).host],
    },
    rules,
    alertmanagerUrl: alertmanager.url,
  });
  const athleteId = await useTheService();
  await pushLines(lines);
  deliveries = keepDelivering(athleteId); // a rate has no value until its counter has risen between two scrapes
}, 240_000);
afterAll(async () => {
  await deliveries?.stop();
  await (prometheus as LocalProgram | undefined)?.stop();
  await (rig as Rig | undefined)?.close();
  await (loki as LocalLoki | undefined)?.stop();
  await (alertmanager as LocalProgram | undefined)?.stop();
  await new Promise((resolve) => exporter.close(resolve));
  rmSync(folder, { recursive: true });
}, 120_000); // five programs, one after the other, beside two other files' programs

describe.each(DASHBOARDS)('%s', (file) => {
  const dashboard = JSON.parse(readFileSync(join(import.meta.dirname, '../../dashboards', file), 'utf8'));

  const queries = [...panelQueries(dashboard), ...markQueries(dashboard), ...variableQueries(dashboard)];
  it.each(queries.map((query) => ({ ...query, title: `${query.panel}: ${query.expr}` })))(
    '$title',
    async ({ language, expr }) => {
      const query = withoutGrafanaVariables(expr, WINDOW);
      const ask = language === 'logql' ? askLoki : askPrometheus;
      // A scrape, an evaluation or an index comes within seconds; a query that is refused is no matter of time.
      await until(async () => (await ask(query)) > 0, `an answer with data to ${query}`, 30_000);
    },
  );
});

/** The marks on each chart. */
function markQueries({ annotations }: { annotations: { list: { name: string; expr: string }[] } }): PanelQuery[] {
  return annotations.list.map(({ name, expr }) => ({ panel: `the marks ${name}`, language: 'promql', expr }));
}

/** What a variable's values are read from. */
function variableQueries({
  templating,
}: {
  templating: { list: { name: string; type: string; query: string }[] };
}): PanelQuery[] {
  return templating.list
    .filter(({ type }) => type === 'query')
    .map(({ name, query }) => {
      const [, expr = query] = /^label_values\((.+), \w+\)$/.exec(query) ?? [];
      return { panel: `the variable ${name}`, language: 'promql', expr };
    });
}

/** The number of series or streams in the answer. @throws when the query is refused */
async function askPrometheus(query: string): Promise<number> {
  const [end, start] = [Date.now(), Date.now() - RANGE_MS].map((at) => String(at / 1000)) as [string, string];
  return ask(`${prometheus.url}/api/v1/query_range`, { query, start, end, step: '2' });
}

async function askLoki(query: string): Promise<number> {
  const [end, start] = [Date.now(), Date.now() - RANGE_MS * 10].map((at) => `${at}000000`) as [string, string];
  return ask(`${loki.url}/loki/api/v1/query_range`, { query, start, end });
}

async function ask(url: string, parameters: Record<string, string>): Promise<number> {
  const answer = await fetch(`${url}?${new URLSearchParams(parameters)}`);
  if (!answer.ok) throw new Error(`${parameters.query} was refused: ${await answer.text()}`);
  return ((await answer.json()) as { data: { result: unknown[] } }).data.result.length;
}

async function startClusterExporter(): Promise<Server> {
  let asked = 0;
  const server = createServer((_, response) => {
    asked += 1;
    response.setHeader('content-type', 'text/plain; version=0.0.4');
    response.end(
      OF_A_CLUSTER.replaceAll('RISING', String(asked))
        .replaceAll('NOW', String(Date.now() / 1000))
        .trimStart(),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return server;
}

/** Sends the service through what its dashboard shows: deliveries, fetches, failures, throttling, a sweep, a refresh. */
async function useTheService(): Promise<string> {
  rig.simulator.subscribe(`${rig.service.url}/api/provider/webhook`);
  const athleteId = await rig.connectAthlete();
  const { id } = await rig.simulator.createActivityAndNotify(athleteId, {});
  await rig.untilJob(id, ({ status }) => status === 'done');
  const faults = rig.simulator.faults;
  faults.add({ kind: 'status', status: 503, times: 1 });
  const failing = await rig.simulator.createActivityAndNotify(athleteId, {});
  await rig.untilJob(failing.id, ({ status }) => status === 'done', 30_000);
  await rig.service.database.query('UPDATE athlete SET token_expires_at = now()');
  const refreshed = await rig.simulator.createActivityAndNotify(athleteId, {});
  await rig.untilJob(refreshed.id, ({ status }) => status === 'done', 30_000);
  await rig.admin('/api/admin/activity-jobs');
  await rig.post('not json');
  return athleteId;
}

function keepDelivering(athleteId: string) {
  const ending = new AbortController();
  const delivering = (async () => {
    for await (const _ of every(DELIVERY_EVERY_MS, undefined, { signal: ending.signal }))
      await rig.simulator.createActivityAndNotify(athleteId, {});
  })().catch((error: Error) => {
    if (error.name !== 'AbortError') throw error;
  });
  return {
    async stop() {
      ending.abort();
      await delivering;
    },
  };
}

async function pushLines(service: string[]): Promise<void> {
  const streams: [Record<string, string>, string[]][] = [
    [{ namespace: 'activity-sync', container: 'activity-sync', pod: 'activity-sync-web-1', source: 'pods' }, service],
    [
      { namespace: 'activity-sync', container: 'activity-sync', pod: 'activity-sync-worker-1', source: 'pods' },
      [
        '{"component":"fetch","level":"error","message":"a sample"}',
        '{"component":"fetch","level":"warn","message":"a sample"}',
      ],
    ],
    [
      { namespace: 'activity-sync', container: 'postgres', pod: 'activity-sync-db-1', source: 'pods' },
      ['2026-11-20 03:12:45.101 UTC [99] FATAL:  password authentication failed for user "activity_sync"'],
    ],
    [{ namespace: 'activity-sync', source: 'events' }, ['name=a kind=Pod reason=BackOff type=Warning msg="Back-off" ']],
  ];
  for (const [stream, lines] of streams)
    await loki.push(
      stream,
      lines.map((line) => ({ at: Date.now(), line: line.trimEnd() })),
    );
}
