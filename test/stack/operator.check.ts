import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { parse, stringify } from 'yaml';
import { freePort, type LocalProgram, started, withHeartbeatAddress } from '../../alerting/src/local-stack.ts';
import { alertsOf, readRuleFiles } from '../../alerting/src/rule-files.ts';
import type { Resource } from '../../k8s/src/read-layers.ts';
import { findBuilt } from '../../tools/programs.ts';
import { findResource, layers, settings } from '../support/manifests.ts';
import { until } from '../support/until.ts';
import { renderAlertmanager, renderPrometheus, renderWebhooks } from './charts.ts';
import { type Cluster, installDefinitions, startCluster } from './cluster.ts';
import { runningPods, runPods } from './running-pods.ts';

const PATIENCE_MS = 60_000;
const layer = (name: string) => layers.find((one) => one.name === name)?.resources ?? [];
const pods = runningPods();
// Without it the operator makes no Prometheus at all: "storage class does not exist".
const storageClass = {
  apiVersion: 'storage.k8s.io/v1',
  kind: 'StorageClass',
  metadata: { name: settings.STORAGE_CLASS },
  provisioner: 'example.com/csi',
};

let folder: string;
let cluster: Cluster;
const programs: LocalProgram[] = [];

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'operator-'));
  cluster = await startCluster();
  await installDefinitions(cluster);
  await cluster.apply([
    ...layer('namespaces'),
    { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'flux-system' } },
  ]);
  await cluster.apply([storageClass]);
  const url = await startWebhook();
  const caBundle = readFileSync(cluster.certificate.cert).toString('base64');
  await cluster.apply(renderWebhooks(url, caBundle));
}, 180_000);
afterAll(async () => {
  for (const program of programs.reverse()) await program.stop();
  await (cluster as Cluster | undefined)?.stop();
  rmSync(folder, { recursive: true });
}, 120_000);

describe("the operator's admission webhook", () => {
  const rule = (expr: string, labels: Record<string, string> = {}) => ({
    apiVersion: 'monitoring.coreos.com/v1',
    kind: 'PrometheusRule',
    metadata: { name: 'probe', namespace: 'monitoring', labels },
    spec: { groups: [{ name: 'probe', rules: [{ alert: 'Probe', expr }] }] },
  });

  it('accepts every rule of alerting/, the log rules included', async () => {
    expect((await cluster.apply(layer('monitoring-rules'))).stderr).toBe('');
  });

  it('refuses a rule that is no PromQL', async () => {
    await expect(cluster.apply([rule('sum(up')])).rejects.toThrow(/could not parse expression/);
  });

  it('refuses a log rule without the label that keeps it out, and accepts it with the label', async () => {
    const logql = '{namespace="a"} |= `b`';
    await expect(cluster.apply([rule(logql)])).rejects.toThrow(/could not parse expression/);
    await cluster.apply([rule(logql, { 'rules.kind': 'logql' })]);
  });
});

describe('the operator', () => {
  let prometheus: LocalProgram;
  let alertmanager: LocalProgram;
  let asked: { server: Server; hosts: Set<string> };

  beforeAll(async () => {
    const services = [...layer('app').filter(({ kind }) => kind === 'Service'), ...renderAlertmanager()] as Resource[];
    await cluster.apply([...layer('app').filter(({ kind }) => ['Service', 'ServiceMonitor'].includes(kind))]);
    await cluster.apply(layer('monitoring-targets'));
    await cluster.apply([renderPrometheus(), ...renderAlertmanager()]);
    await startOperator();
    await runPods(
      cluster,
      pods,
      services.filter(({ kind }) => kind === 'Service'),
    );
    asked = await startScrapeProxy();
    alertmanager = await runAlertmanager(
      await generated('alertmanager-monitoring-alertmanager-generated', 'alertmanager.yaml.gz'),
    );
    prometheus = await runPrometheus(
      await generated('prometheus-monitoring-prometheus', 'prometheus.yaml.gz'),
      asked.server,
    );
  }, 240_000);
  afterAll(async () => {
    asked?.server.closeAllConnections();
    await new Promise((resolve) => asked?.server.close(resolve));
  });

  const ask = async <T>(program: LocalProgram, path: string) => {
    const answer = await fetch(`${program.url}${path}`);
    return (await answer.json()) as T;
  };

  it('makes Prometheus find every process that has metrics, and know the service by its job', async () => {
    const scraped = pods.filter(({ port }) => port !== 'http-web'); // the Alertmanager's own monitor is the chart's
    const targets = async () =>
      (await ask<TargetsAnswer>(prometheus, '/api/v1/targets?state=active')).data.activeTargets.map(
        ({ labels, health, lastError }) => ({
          pod: labels.pod,
          job: labels.job,
          state: `${health} ${lastError}`.trim(),
        }),
      );
    let found = await targets();
    await until(async () => {
      found = await targets();
      return found.length === scraped.length && found.every(({ state }) => state !== 'unknown');
    }, 'a scrape of every target').catch((error: Error) => {
      throw new Error(`${error.message}: ${JSON.stringify(found)}`);
    });
    expect(found.map(({ pod, state }) => [pod, state]).sort()).toEqual(scraped.map(({ name }) => [name, 'up']).sort());
    const service = found.filter(({ pod }) => /^activity-sync-(web|worker)-/.test(pod ?? ''));
    expect(service.map(({ job }) => job)).toEqual(['activity-sync', 'activity-sync']);
    expect([...asked.hosts].filter((host) => !host.endsWith(':9093')).sort()).toEqual(
      scraped.map(({ ip, number }) => `${ip}:${number}`).sort(),
    );
  }, 120_000);

  it('gives Prometheus every metric rule, and none over logs', async () => {
    const { data } = await ask<RulesAnswer>(prometheus, '/api/v1/rules');
    const loaded = data.groups.flatMap(({ rules }) => rules.map(({ name }) => name));
    const own = alertsOf(readRuleFiles().filter(({ language }) => language === 'promql')).map(({ alert }) => alert);
    expect(loaded).toEqual(expect.arrayContaining(own));
    expect(loaded.filter((name) => name.startsWith('Log') && !own.includes(name))).toEqual([]);
  });

  it('leads Prometheus to the Alertmanager', async () => {
    const isKnown = async () => {
      const { data } = await ask<{ data: { activeAlertmanagers: unknown[] } }>(prometheus, '/api/v1/alertmanagers');
      return data.activeAlertmanagers.length === 1;
    };
    await until(isKnown, 'Prometheus finding the Alertmanager', PATIENCE_MS);
  }, 120_000);

  it('gives the Alertmanager every route, receiver and inhibition that k8s/ sets', async () => {
    const { config } = await ask<{ config: { original: string } }>(alertmanager, '/api/v2/status');
    const running = parse(config.original);
    const { config: ours } = findResource('HelmRelease', 'kube-prometheus-stack').spec.values.alertmanager;
    expect(running.route).toMatchObject({ receiver: ours.route.receiver, group_wait: ours.route.group_wait });
    expect(running.receivers.map(({ name }: { name: string }) => name)).toEqual(
      ours.receivers.map(({ name }: { name: string }) => name),
    );
    expect(running.inhibit_rules.length).toBe(ours.inhibit_rules.length);
    const routed = (alertname: string) =>
      execFileSync('amtool', [
        'config',
        'routes',
        'test',
        `--alertmanager.url=${alertmanager.url}`,
        `alertname=${alertname}`,
      ])
        .toString()
        .trim();
    expect([routed('Watchdog'), routed('ActivitySyncAbsent')]).toEqual(['heartbeat,null', 'channel']);
  });

  it('has accepted all of it: no object is refused in its log', () => {
    expect(operatorLog.filter((line) => /level=error/.test(line))).toEqual([]);
  });
});

interface TargetsAnswer {
  data: { activeTargets: { labels: Record<string, string>; health: string; lastError: string }[] };
}
interface RulesAnswer {
  data: { groups: { rules: { name: string }[] }[] };
}

const operatorLog: string[] = [];

async function startWebhook(): Promise<string> {
  const port = await freePort();
  const { cert, key } = cluster.certificate;
  const child = spawn(
    findBuilt('admission-webhook'),
    [
      '--web.enable-tls=true',
      `--web.cert-file=${cert}`,
      `--web.key-file=${key}`,
      `--web.listen-address=127.0.0.1:${port}`,
    ],
    { stdio: ['ignore', 'pipe', 'pipe'] },
  );
  programs.push(await started(child, port, /starting secure server/));
  return `https://127.0.0.1:${port}`;
}

async function startOperator(): Promise<void> {
  const port = await freePort();
  const child = spawn(findBuilt('operator'), [`--web.listen-address=127.0.0.1:${port}`], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, KUBECONFIG: cluster.kubeconfig },
  });
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => operatorLog.push(...chunk.split('\n')));
  programs.push(await started(child, port, /successfully synced all caches[\s\S]*successfully synced all caches/));
}

/** Stops a program after the checks, the last one first. */
function keep(program: LocalProgram): LocalProgram {
  programs.push(program);
  return program;
}

/** What the operator generated into a secret, as soon as it did. */
async function generated(secret: string, key: string): Promise<string> {
  const wait = ['wait', '--for=create', `secret/${secret}`, '-n', 'monitoring', `--timeout=${PATIENCE_MS / 1000}s`];
  const { exitCode, stderr } = await cluster.kubectl(wait);
  if (exitCode !== 0) throw new Error(`The operator did not write ${secret}: ${stderr}${operatorLog.join('\n')}`);
  const { stdout } = await cluster.kubectl(['get', 'secret', secret, '-n', 'monitoring', '-o', 'json']);
  return gunzipSync(Buffer.from(JSON.parse(stdout).data[key], 'base64')).toString();
}

/** Answers in place of the pods: Prometheus is configured to scrape through it. Records the targets. */
async function startScrapeProxy() {
  const hosts = new Set<string>();
  const server = createServer((request, response) => {
    hosts.add(new URL(request.url ?? '').host);
    response.setHeader('content-type', 'text/plain; version=0.0.4');
    response.end('probe 1\n');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { server, hosts };
}

/** Runs the generated configuration; local are only the cluster's address, the folder of the rules and the proxy. */
async function runPrometheus(text: string, proxy: Server): Promise<LocalProgram> {
  const { stdout } = await cluster.kubectl([
    'get',
    'configmap',
    '-n',
    'monitoring',
    '-l',
    'prometheus-name=monitoring-prometheus',
    '-o',
    'json',
  ]);
  for (const { data } of JSON.parse(stdout).items)
    for (const [name, rules] of Object.entries(data ?? {})) writeFileSync(join(folder, name), rules as string);
  // The reloader beside Prometheus fills in these two from its pod.
  const config = parse(
    text.replaceAll('$(SHARD)', '0').replaceAll('$(POD_NAME)', 'prometheus-monitoring-prometheus-0'),
  );
  const local = {
    proxy_url: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`,
  };
  const throughLocal = (one: Record<string, unknown>) => ({
    ...one,
    ...local,
    kubernetes_sd_configs: (one.kubernetes_sd_configs as object[]).map((discovery) => ({
      ...discovery,
      kubeconfig_file: cluster.kubeconfig,
    })),
  });
  const file = join(folder, 'prometheus.yaml');
  writeFileSync(
    file,
    stringify(
      {
        ...config,
        global: { ...config.global, scrape_interval: '1s', scrape_timeout: '1s' },
        rule_files: [join(folder, '*activity-sync*.yaml')],
        scrape_configs: config.scrape_configs.map(({ scrape_interval: _, ...one }: Record<string, unknown>) =>
          throughLocal(one),
        ),
        alerting: { ...config.alerting, alertmanagers: config.alerting.alertmanagers.map(throughLocal) },
      },
      { version: '1.1' },
    ),
  );
  const port = await freePort();
  const child = spawn(
    findBuilt('prometheus'),
    [
      `--config.file=${file}`,
      `--storage.tsdb.path=${join(folder, 'prometheus')}`,
      `--web.listen-address=127.0.0.1:${port}`,
    ],
    { stdio: ['ignore', 'ignore', 'pipe'] },
  );
  return keep(await started(child, port, /Server is ready to receive web requests/));
}

/** Runs the generated configuration with the secret's mount in this folder. */
async function runAlertmanager(text: string): Promise<LocalProgram> {
  const file = join(folder, 'alertmanager.yaml');
  writeFileSync(file, stringify(withHeartbeatAddress(parse(text))));
  const port = await freePort();
  const child = spawn(
    'prometheus-alertmanager',
    [
      `--config.file=${file}`,
      `--storage.path=${join(folder, 'alertmanager')}`,
      `--web.listen-address=127.0.0.1:${port}`,
      '--cluster.listen-address=',
    ],
    { stdio: ['ignore', 'ignore', 'pipe'] },
  );
  return keep(await started(child, port, /Listening on/));
}
