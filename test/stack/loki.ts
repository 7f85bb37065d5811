import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse, stringify } from 'yaml';
import { freePort, type LocalProgram, started } from '../../alerting/src/local-stack.ts';
import { findBuilt } from '../../tools/programs.ts';
import { until } from '../support/until.ts';

export const RENDERED_CONFIG = join(import.meta.dirname, 'loki-rendered.yaml');
const READY_PATIENCE_MS = 90_000;

/** A series of a metric query's answer. */
export interface Series {
  metric: Record<string, string>;
  /** Unix time in seconds, and the value. */
  values: [number, string][];
}

/** A real Loki with the shipped configuration. */
export interface LocalLoki extends LocalProgram {
  /** What it logged so far; in the cluster a collector brings these lines back to it. */
  log(): string[];
  /** Stores lines of one stream, each with its time in milliseconds, oldest first. */
  push(labels: Record<string, string>, lines: { at: number; line: string }[]): Promise<void>;
  /** Evaluates a metric query once for each minute of a span given in milliseconds. @throws when Loki refuses it */
  queryRange(expr: string, from: number, to: number): Promise<Series[]>;
  /** GET of a path of its interface, as JSON. */
  get<T>(path: string): Promise<T>;
}

/**
 * Starts Loki and waits until `/ready` says so.
 * @param options.rules rule files by name, as the sidecar lays them into the folder of the only tenant
 */
export async function startLoki(options: {
  rules: Record<string, string>;
  alertmanagerUrl: string;
}): Promise<LocalLoki> {
  const folder = mkdtempSync(join(tmpdir(), 'loki-'));
  const port = await freePort();
  mkdirSync(join(folder, 'rules/fake'), { recursive: true });
  for (const [name, text] of Object.entries(options.rules)) writeFileSync(join(folder, 'rules/fake', name), text);
  const file = join(folder, 'config.yaml');
  writeFileSync(file, stringify(await localConfig(folder, port, options.alertmanagerUrl)));
  const child = spawn(findBuilt('loki'), [`-config.file=${file}`, '-config.expand-env=true', '-target=all'], {
    cwd: folder,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let log = '';
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
    log += chunk;
  });
  const program = await started(child, port, /Loki started/);
  const { url } = program;
  await until(async () => (await fetch(`${url}/ready`)).status === 200, 'Loki being ready', READY_PATIENCE_MS);
  return {
    url,
    log: () => log.split('\n').filter(Boolean),
    async push(stream, lines) {
      const values = lines.map(({ at, line }, index) => [String(BigInt(at) * 1_000_000n + BigInt(index)), line]);
      const body = JSON.stringify({ streams: [{ stream, values }] });
      const headers = { 'content-type': 'application/json' };
      const answer = await fetch(`${url}/loki/api/v1/push`, { method: 'POST', headers, body });
      if (answer.status !== 204)
        throw new Error(`Loki refused lines: ${answer.status} ${(await answer.text()).slice(0, 300)}`);
    },
    async queryRange(query, from, to) {
      const span = new URLSearchParams({ query, start: `${from}000000`, end: `${to}000000`, step: '60s' });
      const answer = await fetch(`${url}/loki/api/v1/query_range?${span}`);
      if (!answer.ok) throw new Error(`Loki refused ${query}: ${await answer.text()}`);
      return ((await answer.json()) as { data: { result: Series[] } }).data.result;
    },
    async get<T>(path: string) {
      return (await (await fetch(`${url}${path}`)).json()) as T;
    },
    async stop() {
      await program.stop();
      rmSync(folder, { recursive: true });
    },
  };
}

/** The rendered configuration on one machine: local folders and ports, and neither caches nor other members. */
async function localConfig(folder: string, port: number, alertmanagerUrl: string): Promise<object> {
  const text = readFileSync(RENDERED_CONFIG, 'utf8')
    .replaceAll('/var/loki', join(folder, 'data'))
    .replaceAll(' /rules', ` ${join(folder, 'rules')}`);
  const { memberlist: _, chunk_store_config: __, query_range, ...config } = parse(text);
  return {
    ...config,
    common: { ...config.common, instance_addr: '127.0.0.1', ring: { kvstore: { store: 'inmemory' } } },
    query_range: { align_queries_with_step: query_range.align_queries_with_step },
    // Lines of yesterday that were pushed just now are in no chunk yet.
    ingester: { ...config.ingester, query_store_max_look_back_period: '168h' },
    runtime_config: {},
    ruler: { ...config.ruler, alertmanager_url: alertmanagerUrl },
    server: {
      ...config.server,
      http_listen_address: '127.0.0.1',
      http_listen_port: port,
      grpc_listen_address: '127.0.0.1',
      grpc_listen_port: await freePort(),
    },
  };
}
