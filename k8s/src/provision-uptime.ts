import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { parse } from 'yaml';
import { readSettings } from './read-layers.ts';
import { UptimeKuma, UptimeKumaError, type UptimeMonitor, type UptimeNotification } from './uptime-kuma.ts';

/** What the uptime monitor should watch, and where it sends alerts. */
export interface UptimeState {
  notification: { name: string; webhookUrl: string };
  monitors: { name: string; url: string; intervalSeconds: number }[];
  /** A push monitor: down when nothing has called its address, which ends in `token`, for the interval. */
  heartbeat?: { name: string; token: string; intervalSeconds: number };
}

/** What differs between an HTTP(s) monitor and a push monitor. */
interface WantedMonitor {
  name: string;
  interval: number;
  fields: { type: 'http'; url: string } | { type: 'push'; pushToken: string };
}

const DECLARED = join(import.meta.dirname, '../monitoring/uptime-monitors.yaml');
const TIMEOUT_MS = 15_000;
/** A webhook in Slack's format, which most messaging channels take. */
const NOTIFICATION_TYPE = 'slack';
const USAGE = `Brings the uptime monitor to the state of k8s/monitoring/uptime-monitors.yaml.

  npm run uptime:provision -- --password-file <file> --webhook-url-file <file> --heartbeat-url-file <file> [--url <url>] [--username <name>]

  --url               where the uptime monitor answers (https://<UPTIME_HOST> of the settings)
  --username          its admin account, created on a first visit (admin)
  --password-file     file with the account's password
  --webhook-url-file  file with the channel's webhook URL
  --heartbeat-url-file  file with the address that the Alertmanager's Watchdog is sent to
`;

/**
 * Brings Uptime Kuma to a declared state: the account on a first visit, the notification, and one HTTP(s) monitor for
 * each site with the notification enabled. What it does not declare stays untouched, and nothing is deleted.
 * @returns one sentence for each change; empty when all was as declared
 * @throws UptimeKumaError when Uptime Kuma refuses, or when a declared name exists there twice
 */
export async function provisionUptime(
  server: { url: string; username: string; password: string; timeoutMs?: number },
  state: UptimeState,
): Promise<string[]> {
  const { session, isNewAccount } = await UptimeKuma.signIn({ timeoutMs: TIMEOUT_MS, ...server });
  try {
    const changes = isNewAccount ? [`created the account ${server.username}`] : [];
    const notificationId = await ensureNotification(session, state.notification, changes);
    for (const monitor of wantedMonitors(state)) await ensureMonitor(session, monitor, notificationId, changes);
    return changes;
  } finally {
    session.close();
  }
}

function wantedMonitors({ monitors, heartbeat }: UptimeState): WantedMonitor[] {
  const http = monitors.map(({ name, url, intervalSeconds }) => ({
    name,
    interval: intervalSeconds,
    fields: { type: 'http' as const, url },
  }));
  if (heartbeat === undefined) return http;
  const { name, token, intervalSeconds } = heartbeat;
  return [...http, { name, interval: intervalSeconds, fields: { type: 'push', pushToken: token } }];
}

async function ensureNotification(
  session: UptimeKuma,
  wanted: UptimeState['notification'],
  changes: string[],
): Promise<number> {
  const found = onlyOne(session.notifications(), wanted.name, 'notifications');
  const config = { name: wanted.name, type: NOTIFICATION_TYPE, slackwebhookURL: wanted.webhookUrl };
  if (found === undefined) {
    changes.push(`added the notification ${wanted.name}`);
    return session.saveNotification({ ...config, isDefault: false, applyExisting: false }, null);
  }
  const existing = configOf(found);
  if (differs(existing, config)) {
    changes.push(`changed the notification ${wanted.name}`);
    await session.saveNotification({ ...existing, ...config }, found.id);
  }
  return found.id;
}

async function ensureMonitor(
  session: UptimeKuma,
  wanted: WantedMonitor,
  notificationId: number,
  changes: string[],
): Promise<void> {
  const found = onlyOne(session.monitors(), wanted.name, 'monitors');
  const fields = { ...wanted.fields, interval: wanted.interval };
  if (found === undefined) {
    await session.addMonitor(newMonitor(wanted, notificationId));
    changes.push(`added the monitor ${wanted.name}`);
    return;
  }
  const isNotified = found.notificationIDList[notificationId] === true;
  if (isNotified && !differs(found, fields)) return;
  const notificationIDList = { ...found.notificationIDList, [notificationId]: true };
  await session.editMonitor({ ...found, ...fields, notificationIDList });
  changes.push(`changed the monitor ${wanted.name}`);
}

function newMonitor({ name, interval, fields }: WantedMonitor, notificationId: number): Omit<UptimeMonitor, 'id'> {
  return {
    name,
    url: 'https://', // what Uptime Kuma's own page sends for a push monitor
    ...fields,
    method: 'GET',
    interval,
    retryInterval: interval,
    resendInterval: 0,
    // A request may fail once. A heartbeat is already sent three times within its interval.
    maxretries: fields.type === 'http' ? 1 : 0,
    timeout: Math.round(interval * 0.8),
    maxredirects: 10,
    accepted_statuscodes: ['200-299'],
    notificationIDList: { [notificationId]: true },
    expiryNotification: true,
    ignoreTls: false,
    upsideDown: false,
    parent: null,
    proxyId: null,
    httpBodyEncoding: 'json',
    dns_resolve_type: 'A',
    dns_resolve_server: '1.1.1.1',
    // Version 2 stores these as JSON and reads them back for every type of monitor.
    conditions: [],
    kafkaProducerBrokers: [],
    kafkaProducerSaslOptions: { mechanism: 'None' },
    rabbitmqNodes: [],
    active: true,
  };
}

// Uptime Kuma lets two things have one name; guessing which one is meant could break the other.
function onlyOne<T extends UptimeMonitor | UptimeNotification>(list: T[], name: string, kind: string): T | undefined {
  const found = list.filter((item) => item.name === name);
  if (found.length > 1) {
    throw new UptimeKumaError(
      `Uptime Kuma has ${found.length} ${kind} named ${name} (ids ${found.map(({ id }) => id).join(', ')}); rename or delete all but one`,
    );
  }
  return found[0];
}

function configOf(notification: UptimeNotification): Record<string, unknown> {
  return JSON.parse(notification.config) as Record<string, unknown>;
}

function differs(existing: Record<string, unknown>, wanted: Record<string, unknown>): boolean {
  return Object.entries(wanted).some(([field, value]) => existing[field] !== value);
}

/**
 * Reads the declared state and brings the uptime monitor to it, printing each change.
 * @param args command-line arguments without the program's name
 * @returns the exit code: 0 done, 1 refused, 2 wrong arguments
 */
export async function runUptimeProvision(args: string[], print: (line: string) => void): Promise<number> {
  const { values } = parseArgs({
    args,
    options: {
      url: { type: 'string' },
      username: { type: 'string', default: 'admin' },
      'password-file': { type: 'string' },
      'webhook-url-file': { type: 'string' },
      'heartbeat-url-file': { type: 'string' },
    },
  });
  const passwordFile = values['password-file'];
  const webhookUrlFile = values['webhook-url-file'];
  const heartbeatUrlFile = values['heartbeat-url-file'];
  if (passwordFile === undefined || webhookUrlFile === undefined || heartbeatUrlFile === undefined) {
    print(USAGE);
    return 2;
  }
  const settings = readSettings();
  const url = values.url ?? `https://${settings.UPTIME_HOST}`;
  try {
    const state = readDeclaredState(settings, firstLine(webhookUrlFile), firstLine(heartbeatUrlFile));
    const changes = await provisionUptime({ url, username: values.username, password: firstLine(passwordFile) }, state);
    for (const change of changes) print(change);
    print(
      changes.length === 0 ? 'Nothing to change.' : 'Now use Test on the notification once to see it in the channel.',
    );
    return 0;
  } catch (error) {
    print((error as Error).message);
    return 1;
  }
}

/**
 * The declared monitors with the cluster's hosts filled in.
 * @param heartbeatUrl an address of Uptime Kuma, `…/api/push/<token>`
 * @throws UptimeKumaError when the heartbeat's address has no token
 */
export function readDeclaredState(
  settings: Record<string, string>,
  webhookUrl: string,
  heartbeatUrl: string,
): UptimeState {
  const text = readFileSync(DECLARED, 'utf8').replaceAll(
    /\$\{(\w+)\}/g,
    (placeholder, name: string) => settings[name] ?? placeholder,
  );
  const declared = parse(text) as {
    notification: string;
    monitors: UptimeState['monitors'];
    heartbeat: { name: string; intervalSeconds: number };
  };
  const token = /\/api\/push\/(\w{32,})$/.exec(heartbeatUrl)?.[1];
  if (token === undefined) {
    throw new UptimeKumaError(
      'The address of the heartbeat must end in /api/push/ and a token of 32 or more letters and digits (openssl rand -hex 16)',
    );
  }
  return {
    notification: { name: declared.notification, webhookUrl },
    monitors: declared.monitors,
    heartbeat: { ...declared.heartbeat, token },
  };
}

function firstLine(file: string): string {
  return readFileSync(file, 'utf8').split('\n')[0]?.trim() ?? '';
}

if (import.meta.main) {
  process.exitCode = await runUptimeProvision(process.argv.slice(2), (line) => process.stdout.write(`${line}\n`));
}
