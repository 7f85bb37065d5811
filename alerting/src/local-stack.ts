import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { parse, stringify } from 'yaml';
import type { RuleFile } from './rule-files.ts';

const START_PATIENCE_MS = 60_000;

/** A program that was started and can be stopped. */
export interface LocalProgram {
  url: string;
  stop(): Promise<void>;
}

/** A message of the Alertmanager to a channel in Slack's format. */
export interface ChannelMessage {
  channel: string;
  attachments: { title: string; text: string }[];
}

/** A channel that keeps the messages it receives. */
export interface LocalChannel extends LocalProgram {
  received: ChannelMessage[];
  /** The next unread message, as soon as there is one. */
  nextMessage(): Promise<ChannelMessage>;
}

/**
 * Starts a real Alertmanager on this machine.
 * @param options.config the configuration as the cluster has it; only the secret's path becomes a local one
 * @param options.intervals overrides of the configuration's waiting times, such as `{ group_interval: '1s' }`
 */
export async function startAlertmanager(options: {
  program: string;
  folder: string;
  config: object;
  webhookUrl: string;
  /** Where Watchdog is sent; nowhere by default. */
  heartbeatUrl?: string;
  intervals?: Record<string, string>;
}): Promise<LocalProgram> {
  const { program, folder, webhookUrl } = options;
  mkdirSync(join(folder, 'secrets'), { recursive: true });
  writeFileSync(join(folder, 'secrets/webhook-url'), webhookUrl);
  let text = stringify(withHeartbeatAddress(options.config, options.heartbeatUrl)).replace(
    /\/etc\/alertmanager\/secrets\/[^/]+/,
    join(folder, 'secrets'),
  );
  for (const [name, value] of Object.entries(options.intervals ?? {})) {
    text = text.replace(new RegExp(`${name}: \\S+`), `${name}: ${value}`);
  }
  const file = join(folder, 'alertmanager.yaml');
  writeFileSync(file, text);
  const port = await freePort();
  const child = spawn(
    program,
    [
      `--config.file=${file}`,
      `--storage.path=${join(folder, 'alertmanager')}`,
      `--web.listen-address=127.0.0.1:${port}`,
      '--cluster.listen-address=',
    ],
    { stdio: ['ignore', 'ignore', 'pipe'] },
  );
  return started(child, port, /Listening on/);
}

/**
 * The configuration for Alertmanager 0.25, which reads no webhook's address from a file (0.26 does).
 * @param heartbeatUrl the address to use
 */
export function withHeartbeatAddress(config: object, heartbeatUrl = 'http://127.0.0.1:1'): object {
  const text = stringify(config).replace(/url_file: \S+\/heartbeat-url/, `url: ${heartbeatUrl}`);
  return parse(text) as object;
}

/**
 * Starts a real Prometheus on this machine, which scrapes and evaluates every second.
 * @param options.targets host:port of processes that are scraped as job `activity-sync`
 * @param options.otherJobs host:port of other scrape targets, by job
 * @param options.rules loaded with minutes shortened to seconds, so that a test need not wait
 * @param options.alertmanagerUrl where alerts go
 */
export async function startPrometheus(options: {
  program: string;
  folder: string;
  targets: string[];
  otherJobs?: Record<string, string[]>;
  rules: RuleFile[];
  alertmanagerUrl: string;
}): Promise<LocalProgram> {
  const { program, folder, targets, rules, alertmanagerUrl } = options;
  const port = await freePort();
  const jobs = { 'activity-sync': targets, prometheus: [`127.0.0.1:${port}`], ...options.otherJobs };
  const ruleFiles = rules.map(({ name, groups }) => {
    const file = join(folder, `${name}.rules.yaml`);
    writeFileSync(file, inSeconds(stringify({ groups }, { lineWidth: 0 })));
    return file;
  });
  const file = join(folder, 'prometheus.yaml');
  writeFileSync(
    file,
    stringify({
      global: { scrape_interval: '1s', scrape_timeout: '1s', evaluation_interval: '1s' },
      rule_files: ruleFiles,
      alerting: { alertmanagers: [{ static_configs: [{ targets: [new URL(alertmanagerUrl).host] }] }] },
      scrape_configs: Object.entries(jobs).map(([job, hosts]) => ({
        job_name: job,
        honor_labels: true,
        static_configs: [{ targets: hosts }],
      })),
    }),
  );
  const child = spawn(
    program,
    [
      `--config.file=${file}`,
      `--storage.tsdb.path=${join(folder, 'prometheus')}`,
      `--web.listen-address=127.0.0.1:${port}`,
    ],
    { stdio: ['ignore', 'ignore', 'pipe'] },
  );
  return started(child, port, /Server is ready to receive web requests/);
}

/** Starts a channel that takes messages at its URL. */
export async function startChannel(): Promise<LocalChannel> {
  const received: ChannelMessage[] = [];
  let taken = 0;
  let announce: (() => void) | undefined;
  const server = createServer((request, response) => {
    let body = '';
    request.setEncoding('utf8').on('data', (chunk: string) => {
      body += chunk;
    });
    request.on('end', () => {
      received.push(JSON.parse(body) as ChannelMessage);
      response.end('ok');
      announce?.();
    });
  });
  const url = await listen(server);
  return {
    url,
    received,
    async nextMessage() {
      if (received.length === taken) {
        await new Promise<void>((resolve) => {
          announce = resolve;
        });
      }
      taken += 1;
      return received[taken - 1] as ChannelMessage;
    },
    async stop() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

// An hour becomes a minute and a minute a second; the shape of each rule stays.
function inSeconds(text: string): string {
  return text
    .replaceAll(/(\[|for: |interval: )(\d+)m/g, '$1$2s')
    .replaceAll(/(\[|for: |interval: )(\d+)h/g, '$1$2m')
    .replaceAll(/interval: 30s/g, 'interval: 1s');
}

/** Waits until a program says in its log that it is ready. @throws with its log when it ends before */
export async function started(child: ChildProcess, port: number, isReady: RegExp): Promise<LocalProgram> {
  let log = '';
  await new Promise<void>((resolve, reject) => {
    const fail = (what: string) => {
      clearTimeout(overdue);
      reject(new Error(`${child.spawnfile} ${what}: ${log}`));
    };
    const overdue = setTimeout(() => {
      child.kill();
      fail('is not ready');
    }, START_PATIENCE_MS);
    for (const stream of [child.stdout, child.stderr]) {
      stream?.setEncoding('utf8').on('data', (chunk: string) => {
        log += chunk;
        if (!isReady.test(log)) return;
        clearTimeout(overdue);
        resolve();
      });
    }
    child.once('error', reject);
    child.once('exit', (code) => fail(`ended with ${code}`));
  });
  return {
    url: `http://127.0.0.1:${port}`,
    async stop() {
      const ended = new Promise((resolve) => child.once('exit', resolve));
      child.kill();
      await ended;
    },
  };
}

/** A port of this machine that is free now. */
export async function freePort(): Promise<number> {
  const server = createServer();
  const url = await listen(server);
  await new Promise((resolve) => server.close(resolve));
  return Number(new URL(url).port);
}

async function listen(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
