import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { stringify } from 'yaml';
import { findProgram } from '../../alerting/src/find-program.ts';
import {
  type LocalChannel,
  type LocalProgram,
  startAlertmanager,
  startChannel,
} from '../../alerting/src/local-stack.ts';
import { readAlertmanagerConfig, readSettings } from '../../k8s/src/read-layers.ts';
import { runAlertTest, sendTestAlert } from '../../src/cli/alert-test.ts';

const PACKAGE = 'prometheus-alertmanager';
const amtool = findProgram('amtool', PACKAGE, 'the configuration and the routes of the Alertmanager');
const alertmanager = findProgram(
  'prometheus-alertmanager',
  PACKAGE,
  'that an alert reaches the channel within 30 seconds',
);
const GROUP_WAIT_MS = 30_000;
const config = readAlertmanagerConfig() as {
  route: object;
  receivers: { name: string; slack_configs?: { api_url_file: string }[] }[];
};

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'alertmanager-'));
});
afterAll(() => rmSync(folder, { recursive: true }));

describe('the configuration of the Alertmanager', () => {
  it('waits 30 seconds for a group and reads the webhook URL from the mounted secret', () => {
    expect(config.route).toMatchObject({ group_wait: '30s' });
    expect(config.receivers.map(({ name }) => name)).toEqual(['null', 'channel']);
    expect(config.receivers[1]?.slack_configs?.[0]?.api_url_file).toBe(
      `/etc/alertmanager/secrets/${readSettings().ALERT_WEBHOOK_SECRET}/webhook-url`,
    );
  });

  it('is one that amtool accepts', () => {
    if (!amtool) return;
    writeFileSync(join(folder, 'check.yaml'), stringify(config));
    expect(execFileSync(amtool, ['check-config', join(folder, 'check.yaml')]).toString()).toContain('SUCCESS');
  });

  it.each([
    ['the liveness alert nowhere', ['alertname=Watchdog', 'severity=none'], 'null'],
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

describe('a real Alertmanager with this configuration', () => {
  let channel: LocalChannel | undefined;
  let running: LocalProgram | undefined;
  beforeAll(async () => {
    if (!alertmanager) return;
    channel = await startChannel();
    // Only the five minutes between two messages of a group are other than in the cluster.
    running = await startAlertmanager({
      program: alertmanager,
      folder,
      config,
      webhookUrl: channel.url,
      intervals: { group_interval: '1s' },
    });
  });
  afterAll(async () => {
    await running?.stop();
    await channel?.stop();
  });

  it('tells the channel of an alert within 30 seconds, then of its end, and never of the liveness alert', async () => {
    if (!running || !channel) return;
    const sentAt = Date.now();
    await sendTestAlert(running.url, { now: sentAt, lastsMs: 600_000, alertname: 'Watchdog', severity: 'none' });
    await sendTestAlert(running.url, { now: sentAt, lastsMs: 600_000 });

    const first = await channel.nextMessage();
    expect(Date.now() - sentAt).toBeLessThan(GROUP_WAIT_MS + 3000);
    expect(first.attachments[0]?.title).toBe('FIRING (1): TestAlert');
    expect(first.attachments[0]?.text).toContain('Somebody tests whether alerts reach this channel.');
    expect(first.channel).toBe('#alerts');

    await sendTestAlert(running.url, { now: sentAt, lastsMs: Date.now() - sentAt });
    const second = await channel.nextMessage();
    expect(second.attachments[0]?.title).toBe('RESOLVED: TestAlert');
    expect(channel.received.map(({ attachments }) => attachments[0]?.title).join()).not.toContain('Watchdog');
  }, 60_000);
});

describe('the test alert', () => {
  it('says what to do when no Alertmanager answers', async () => {
    const lines: string[] = [];
    expect(await runAlertTest(['--url', 'http://127.0.0.1:1'], (line) => lines.push(line))).toBe(1);
    expect(lines.join()).toContain('Is the port-forward to port 9093 running?');
  });

  it('has the documented form, and tells what to expect', async () => {
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
