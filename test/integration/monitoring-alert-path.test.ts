import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setInterval as every } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { findProgram } from '../../alerting/src/find-program.ts';
import {
  type LocalChannel,
  type LocalProgram,
  startAlertmanager,
  startChannel,
  startPrometheus,
} from '../../alerting/src/local-stack.ts';
import { alertsOf, readRuleFiles } from '../../alerting/src/rule-files.ts';
import { findEmptyQueries } from '../../dashboards/src/find-empty-panels.ts';
import { readAlertmanagerConfig } from '../../k8s/src/read-layers.ts';
import { sendTestAlert } from '../../src/cli/alert-test.ts';
import { type Rig, startRig } from '../support/service.ts';

const UNCHECKED = 'that alerts reach the channel through the real programs';
const GROUP_WAIT_MS = 30_000;
const prometheusProgram = findProgram('prometheus', 'prometheus', UNCHECKED);
const alertmanagerProgram = findProgram('prometheus-alertmanager', 'prometheus-alertmanager', UNCHECKED);
const isPossible = prometheusProgram !== undefined && alertmanagerProgram !== undefined;
const OWN_RULES = readRuleFiles().filter(({ name, language }) => language === 'promql' && name !== 'platform');

/** An Alertmanager as the cluster has it; only the five minutes between two messages of a group are shorter. */
let asShipped: {
  alertmanager: LocalProgram;
  channel: LocalChannel;
  sentAt: number;
  told: ReturnType<typeof untilTold>;
};
let rig: Rig;
let channel: LocalChannel;
let alertmanager: LocalProgram;
let prometheus: LocalProgram;
let folder: string;

beforeAll(async () => {
  if (!isPossible) return;
  folder = mkdtempSync(join(tmpdir(), 'alert-path-'));
  asShipped = await startAsShipped(); // its first message comes while the other tests run
  rig = await startRig({ env: { FETCH_BACKOFF_BASE_MS: '100', FETCH_BACKOFF_CAP_MS: '300' } });
  rig.simulator.subscribe(`${rig.service.url}/api/provider/webhook`);
  channel = await startChannel();
  alertmanager = await startAlertmanager({
    program: alertmanagerProgram,
    folder,
    config: readAlertmanagerConfig(),
    webhookUrl: channel.url,
    intervals: { group_wait: '1s', group_interval: '1s' },
  });
  prometheus = await startPrometheus({
    program: prometheusProgram,
    folder,
    targets: [new URL(rig.service.url).host],
    rules: OWN_RULES,
    alertmanagerUrl: alertmanager.url,
  });
});
afterAll(async () => {
  if (!isPossible) return;
  // After a start that failed half-way, only a part is there.
  const parts = [prometheus, alertmanager, channel, asShipped?.alertmanager, asShipped?.channel];
  for (const part of parts as (LocalProgram | LocalChannel | undefined)[]) await part?.stop();
  await (rig as Rig | undefined)?.close();
  rmSync(folder, { recursive: true });
});

describe('an outage of the provider', () => {
  it('is seen by Prometheus, reported to the channel, and reported again when it is over', async () => {
    if (!isPossible) return;
    const athleteId = await rig.connectAthlete();
    const traffic = keepSendingActivities(athleteId);
    try {
      rig.simulator.faults.add({ kind: 'status', status: 503 });
      const firing = await untilMessageAbout('ActivitySyncProviderFailing');
      expect(firing.attachments[0]?.title).toContain('FIRING');
      expect(firing.attachments[0]?.text).toContain('Calls to the provider fail');
      rig.simulator.faults.clear();
      const over = await untilMessageAbout('ActivitySyncProviderFailing', 'RESOLVED');
      expect(over.attachments[0]?.title).toContain('RESOLVED');
    } finally {
      await traffic.stop();
    }
  }, 120_000);

  it('left a picture: the real Prometheus takes every query of the dashboard, and has data for deliveries, runs and calls', async () => {
    if (!isPossible) return;
    const options = { prometheusUrl: prometheus.url, rangeSeconds: 30, window: '5s' };
    const empty = await findEmptyQueries('activity-sync.json', options);
    const platform = await findEmptyQueries('activity-sync-stack.json', options);
    expect([...empty, ...platform].filter(({ reason }) => reason !== 'no data')).toEqual([]);
    const panels = empty.map(({ panel }) => panel);
    for (const panel of ['Deliveries by result', 'Acknowledgement time', 'Runs by result', 'Calls by code', 'Memory']) {
      expect(panels).not.toContain(panel);
    }
  });

  it('was watched with every rule of the service loaded and evaluated without an error', async () => {
    if (!isPossible) return;
    const { data } = (await (await fetch(`${prometheus.url}/api/v1/rules`)).json()) as {
      data: { groups: { rules: { name: string; health: string; lastError?: string }[] }[] };
    };
    const rules = data.groups.flatMap((group) => group.rules);
    expect(
      rules.filter(({ health }) => health === 'err').map(({ name, lastError }) => `${name}: ${lastError}`),
    ).toEqual([]);
    expect(rules.map(({ name }) => name)).toEqual(
      expect.arrayContaining(alertsOf(OWN_RULES).map(({ alert }) => alert)),
    );
  });
});

describe('an alert in the Alertmanager as it is shipped', () => {
  it('reaches the channel within 30 seconds, then its end, and never the liveness alert', async () => {
    if (!isPossible) return;
    const { message, afterMs } = await asShipped.told;
    expect(afterMs).toBeLessThan(GROUP_WAIT_MS + 3000);
    expect(message.attachments[0]?.title).toBe('FIRING (1): TestAlert in monitoring');
    expect(message.attachments[0]?.text).toContain('An operator is testing whether alerts reach this channel.');
    expect(message.channel).toBe('#alerts');

    const { sentAt } = asShipped;
    await sendTestAlert(asShipped.alertmanager.url, { now: sentAt, lastsMs: Date.now() - sentAt });
    const end = await asShipped.channel.nextMessage();
    expect(end.attachments[0]?.title).toBe('RESOLVED: TestAlert in monitoring');
    const titles = asShipped.channel.received.map(({ attachments }) => attachments[0]?.title);
    expect(titles.join()).not.toContain('Watchdog');
  }, 60_000);
});

async function startAsShipped(): Promise<typeof asShipped> {
  const toItself = await startChannel();
  const program = await startAlertmanager({
    program: alertmanagerProgram as string,
    folder: mkdtempSync(join(folder, 'as-shipped-')),
    config: readAlertmanagerConfig(),
    webhookUrl: toItself.url,
    intervals: { group_interval: '1s' },
  });
  const sentAt = Date.now();
  await sendTestAlert(program.url, { now: sentAt, lastsMs: 600_000, alertname: 'Watchdog', severity: 'none' });
  await sendTestAlert(program.url, { now: sentAt, lastsMs: 600_000 });
  return { alertmanager: program, channel: toItself, sentAt, told: untilTold(toItself, sentAt) };
}

async function untilTold(told: LocalChannel, sentAt: number) {
  const message = await told.nextMessage();
  return { message, afterMs: Date.now() - sentAt };
}

async function untilMessageAbout(alert: string, state = 'FIRING') {
  for (;;) {
    const message = await channel.nextMessage();
    const title = message.attachments[0]?.title ?? '';
    if (title.includes(alert) && title.startsWith(state)) return message;
  }
}

function keepSendingActivities(athleteId: string) {
  const ending = new AbortController();
  const sending = (async () => {
    for await (const _ of every(150, undefined, { signal: ending.signal })) {
      await rig.simulator.createActivityAndNotify(athleteId, {});
    }
  })().catch((error: Error) => {
    if (error.name !== 'AbortError') throw error;
  });
  return {
    async stop() {
      ending.abort();
      await sending;
    },
  };
}
