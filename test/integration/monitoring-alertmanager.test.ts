import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { stringify } from 'yaml';
import { findProgram } from '../../alerting/src/find-program.ts';
import { startAlertmanager, withHeartbeatAddress } from '../../alerting/src/local-stack.ts';
import { readAlertmanagerConfig, readSettings } from '../../k8s/src/read-layers.ts';
import { runAlertTest, sendTestAlert } from '../../src/cli/alert-test.ts';
import { until } from '../support/until.ts';

const amtool = findProgram('amtool', 'prometheus-alertmanager', 'the configuration and the routes of the Alertmanager');
const config = withHeartbeatAddress(readAlertmanagerConfig()) as {
  route: object;
  receivers: { name: string; webhook_configs?: object[]; slack_configs?: { api_url_file: string }[] }[];
};

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'alertmanager-'));
});
afterAll(() => rmSync(folder, { recursive: true }));

describe('the configuration of the Alertmanager', () => {
  it('waits 30 seconds for a group and reads the webhook URL from the mounted secret', () => {
    expect(config.route).toMatchObject({ group_wait: '30s' });
    expect(config.receivers.map(({ name }) => name)).toEqual(['null', 'heartbeat', 'channel']);
    expect(config.receivers[2]?.slack_configs?.[0]?.api_url_file).toBe(
      `/etc/alertmanager/secrets/${readSettings().ALERT_WEBHOOK_SECRET}/webhook-url`,
    );
  });

  it('is one that amtool accepts', () => {
    if (!amtool) return;
    writeFileSync(join(folder, 'check.yaml'), stringify(config));
    expect(execFileSync(amtool, ['check-config', join(folder, 'check.yaml')]).toString()).toContain('SUCCESS');
  });

  it.each([
    ['the liveness alert only to its monitor', ['alertname=Watchdog', 'severity=none'], 'heartbeat,null'],
    ['the helper alert nowhere', ['alertname=InfoInhibitor', 'severity=none'], 'null'],
    ['a critical alert to the channel', ['alertname=ActivitySyncQueueStalled', 'severity=critical'], 'channel'],
    ['a warning to the channel', ['alertname=VolumeFilling', 'severity=warning', 'namespace=monitoring'], 'channel'],
    ['a log alert to the channel', ['alertname=LogServiceError', 'severity=warning'], 'channel'],
  ])('sends %s', (_, labels, receiver) => {
    if (!amtool) return;
    writeFileSync(join(folder, 'routes.yaml'), stringify(config));
    const routed = execFileSync(
      amtool,
      ['config', 'routes', 'test', `--config.file=${join(folder, 'routes.yaml')}`, ...labels],
      { stdio: 'pipe' },
    );
    expect(routed.toString().trim()).toBe(receiver);
  });
});

const program = findProgram(
  'prometheus-alertmanager',
  'prometheus-alertmanager',
  'that a cause silences what follows, and that the liveness alert is sent at each interval',
);

describe("the liveness alert's way to its monitor", () => {
  const INTERVAL_MS = 2000; // one minute, shortened

  it('is taken at every interval, not at every second one', async () => {
    if (!program) return;
    const sentAt: number[] = [];
    const monitor = createServer((_, response) => {
      sentAt.push(performance.now());
      response.end();
    });
    await new Promise<void>((resolve) => monitor.listen(0, '127.0.0.1', resolve));
    const faster = (_: string, name: string, count: string, unit: string) =>
      `"${name}_interval":"${Math.round((Number(count) * (unit === 'm' ? 60 : 1) * INTERVAL_MS) / 60)}ms"`;
    const [route] = (config.route as { routes: object[] }).routes;
    const quick = JSON.stringify(route).replaceAll(/"(group|repeat)_interval":"(\d+)(m|s)"/g, faster);
    const alertmanager = await startAlertmanager({
      program,
      folder: mkdtempSync(join(folder, 'heartbeat-')),
      config: { ...readAlertmanagerConfig(), route: { receiver: 'null', routes: [JSON.parse(quick)] } },
      webhookUrl: 'http://127.0.0.1:1',
      heartbeatUrl: `http://127.0.0.1:${(monitor.address() as AddressInfo).port}`,
    });
    try {
      await sendTestAlert(alertmanager.url, {
        now: Date.now(),
        lastsMs: 600_000,
        alertname: 'Watchdog',
        severity: 'none',
      });
      await until(() => sentAt.length >= 4, 'four heartbeats');
      const gaps = sentAt.slice(1).map((at, index) => at - (sentAt[index] as number));
      expect(Math.max(...gaps)).toBeLessThan(1.5 * INTERVAL_MS);
    } finally {
      await alertmanager.stop();
      monitor.closeAllConnections();
      await new Promise((resolve) => monitor.close(resolve));
    }
  });
});

describe('the inhibition rules', () => {
  /** Which alerts an Alertmanager inhibits while it has all of them, each as `name namespace job`. */
  async function inhibited(alerts: string[]): Promise<string[]> {
    const alertmanager = await startAlertmanager({
      program: program as string,
      folder: mkdtempSync(join(folder, 'inhibition-')),
      config,
      webhookUrl: 'http://127.0.0.1:1',
    });
    try {
      const body = alerts.map((alert) => {
        const [alertname, namespace, job] = alert.split(' ');
        return {
          labels: { alertname, namespace, ...(job && { job, service: job }), severity: 'critical' },
          annotations: {},
        };
      });
      const headers = { 'content-type': 'application/json' };
      await fetch(`${alertmanager.url}/api/v2/alerts`, { method: 'POST', headers, body: JSON.stringify(body) });
      type Known = { labels: { alertname: string; namespace: string; job?: string }; status: { state: string } }[];
      const read = async () => (await (await fetch(`${alertmanager.url}/api/v2/alerts`)).json()) as Known;
      let known = await read();
      // Every group is processed once after group_wait; until then an alert is unprocessed.
      await until(async () => {
        known = await read();
        return known.length === alerts.length && known.every(({ status }) => status.state !== 'unprocessed');
      }, 'every alert being processed');
      return known
        .filter(({ status }) => status.state === 'suppressed')
        .map(({ labels }) => [labels.alertname, labels.namespace, labels.job].filter(Boolean).join(' '))
        .sort();
    } finally {
      await alertmanager.stop();
    }
  }

  it('inhibit the consequences of an unreachable database, only in its namespace', async () => {
    if (!program) return;
    const answer = await inhibited([
      'ActivitySyncDatabaseAway prod',
      'ActivitySyncWebhookErrorBudgetFastBurn prod',
      'ActivitySyncQueueStalled prod',
      'LogDatabaseUnreachable prod',
      'ActivitySyncProviderBlocked prod',
      'DatabaseInstanceDown prod',
      'ActivitySyncWebhookErrorBudgetFastBurn staging',
    ]);
    expect(answer).toEqual([
      'ActivitySyncQueueStalled prod',
      'ActivitySyncWebhookErrorBudgetFastBurn prod',
      'LogDatabaseUnreachable prod',
    ]);
  });

  it('inhibit what follows from commits that no replica confirms', async () => {
    if (!program) return;
    const answer = await inhibited([
      'DatabaseWithoutReplica prod',
      'ActivitySyncWebhookErrorBudgetFastBurn prod',
      'ActivitySyncTargetDown prod',
    ]);
    expect(answer).toEqual(['ActivitySyncWebhookErrorBudgetFastBurn prod']);
  });

  it('inhibit what waits for the workers while none of them answers', async () => {
    if (!program) return;
    const follow = [
      'ActivitySyncDeliveriesWaiting prod',
      'ActivitySyncQueueStalled prod',
      'ActivitySyncWebhookJobOld prod',
    ];
    const others = ['ActivitySyncWebhookErrorBudgetFastBurn prod', 'ActivitySyncQueueStalled staging'];
    expect(await inhibited(['ActivitySyncTargetDown prod activity-sync-worker', ...follow, ...others])).toEqual(follow);
    expect(await inhibited(['ActivitySyncTargetDown prod activity-sync', ...follow])).toEqual([]);
  });

  it("inhibit the chart's alert about targets where one of ours speaks of the same", async () => {
    if (!program) return;
    const own = ['ActivitySyncTargetDown prod activity-sync', 'DatabaseInstanceDown prod'];
    const others = ['TargetDown prod monitoring/velero', 'TargetDown staging activity-sync'];
    const same = ['TargetDown prod activity-sync', 'TargetDown prod monitoring/activity-sync-db'];
    expect(await inhibited([...own, ...others, ...same])).toEqual(same);
  });

  it('inhibit the slower tiers of an error budget while a faster one burns', async () => {
    if (!program) return;
    const tier = (name: string, namespace = 'prod') => `ActivitySyncWebhookErrorBudget${name} ${namespace}`;
    const all = [tier('FastBurn'), tier('SlowBurn'), tier('Draining'), tier('AtRisk'), tier('AtRisk', 'staging')];
    expect(await inhibited(all)).toEqual([tier('AtRisk'), tier('Draining'), tier('SlowBurn')]);
  });
});

describe('the test alert', () => {
  it('says what to do when no Alertmanager answers', async () => {
    const lines: string[] = [];
    expect(await runAlertTest(['--url', 'http://127.0.0.1:1'], (line) => lines.push(line))).toBe(1);
    expect(lines.join()).toContain('Is the port-forward to port 9093 running?');
  });

  it('has the documented form, and says what to expect', async () => {
    const bodies: string[] = [];
    const server = createServer((request, response) => {
      expect(`${request.method} ${request.url} ${request.headers['content-type']}`).toBe(
        'POST /api/v2/alerts application/json',
      );
      request.setEncoding('utf8').on('data', (chunk: string) => bodies.push(chunk));
      request.on('end', () => response.end());
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const lines: string[] = [];
    expect(await runAlertTest(['--url', url], (line) => lines.push(line))).toBe(0);
    expect(JSON.parse(bodies.join(''))).toEqual([
      expect.objectContaining({
        labels: { alertname: expect.any(String), severity: expect.any(String), namespace: expect.any(String) },
        annotations: { summary: expect.any(String), description: expect.any(String) },
      }),
    ]);
    expect(lines.join()).toContain('within 30 seconds');
    await new Promise((resolve) => server.close(resolve));
  });
});
