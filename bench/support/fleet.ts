import { setTimeout as pause } from 'node:timers/promises';
import { type Database, openDatabase } from '../../src/infra/database.ts';
import { freePort, type ServiceProcess, startServiceProcess } from '../../test/support/service-process.ts';
import { serviceEnvironment } from './service-environment.ts';
import { type LoggedCall, type SimulatorProcess, startSimulatorProcess } from './simulator-process.ts';

/** Several processes of the service on one database, and a provider that is strict about its windows. */
export interface Fleet {
  database: Database;
  simulator: SimulatorProcess;
  /** Where the webhooks go. */
  webUrl: string;
  /** Kills one of the fetching processes with SIGKILL and starts another in its place. */
  killOne(): Promise<void>;
  stop(): Promise<void>;
}

export interface FleetOptions {
  databaseUrl: string;
  replicas: number;
  capacity: number;
  /** Windows are scaled: the cooldown is the same share of them as in production. */
  intervalMs: number;
  providerClockOffsetMs?: number;
}

const PRODUCTION_INTERVAL_MS = 900_000;
const PRODUCTION_COOLDOWN_MS = 15_000;

export async function startFleet(options: FleetOptions): Promise<Fleet> {
  const { databaseUrl, capacity, intervalMs } = options;
  const simulator = await startSimulatorProcess({
    shortLimit: capacity,
    intervalMs,
    clockOffsetMs: options.providerClockOffsetMs ?? 0,
  });
  const database = openDatabase({
    connectionString: databaseUrl,
    maxConnections: 3,
    applicationName: 'bench',
    onError: () => undefined,
  });
  const startOne = async (roles: string): Promise<ServiceProcess> => {
    const env = serviceEnvironment(databaseUrl, await freePort(), {
      SERVICE_ROLES: roles,
      PROVIDER_API_URL: simulator.url,
      PROVIDER_RATE_LIMIT_CAPACITY: String(capacity),
      PROVIDER_RATE_LIMIT_INTERVAL: String(intervalMs),
      PROVIDER_ATHLETE_COOLDOWN: String(Math.ceil((PRODUCTION_COOLDOWN_MS * intervalMs) / PRODUCTION_INTERVAL_MS)),
      FETCH_TIMEOUT_MS: '2000',
      FETCH_STALE_AFTER_MS: '3000',
      FETCH_BACKOFF_BASE_MS: '100',
      LOG_LEVEL: 'warn',
    });
    const service = startServiceProcess(env);
    await service.ready();
    return service;
  };
  const web = await startOne('web');
  const replicas = await Promise.all(Array.from({ length: options.replicas }, () => startOne('fetch')));
  let nextKilled = 0;
  return {
    database,
    simulator,
    webUrl: web.url,
    killOne: async () => {
      const index = nextKilled++ % replicas.length;
      await replicas[index]?.end('SIGKILL');
      replicas[index] = await startOne('fetch');
    },
    stop: async () => {
      await Promise.all([web, ...replicas].map((service) => service.end('SIGKILL')));
      await database.close();
      await simulator.stop();
    },
  };
}

/** What the provider saw in each whole window. */
export interface WindowUse {
  calls: number;
  refused: number;
}

/**
 * Lets whole windows pass, and reads the provider's log of them. The current window and the next one are
 * left out: the burst of a start near a window rollover is charged to both.
 * @param during is run in each window, somewhere in its middle
 */
export async function watchWindows(
  fleet: Fleet,
  intervalMs: number,
  windows: number,
  during?: () => Promise<void>,
): Promise<{ windows: WindowUse[]; calls: LoggedCall[] }> {
  const first = Math.floor(Date.now() / intervalMs) + 2;
  for (let window = first; window < first + windows; window += 1) {
    await pause(Math.max(0, (window + 0.3 + 0.4 * Math.random()) * intervalMs - Date.now()));
    await during?.();
  }
  await pause(Math.max(0, (first + windows) * intervalMs + 200 - Date.now()));
  const calls = await fleet.simulator.takeCalls();
  return {
    calls,
    windows: Array.from({ length: windows }, (_, n) => {
      const own = calls.filter(({ at }) => Math.floor(at / intervalMs) === first + n);
      return { calls: own.length, refused: own.filter(({ status }) => status === 429).length };
    }),
  };
}

/** The closest two calls for one athlete, in milliseconds of the provider's clock. */
export function closestCalls(calls: readonly LoggedCall[]): number {
  const last = new Map<string, number>();
  let closest = Number.POSITIVE_INFINITY;
  for (const { athleteId, at } of calls) {
    if (athleteId === undefined) continue;
    closest = Math.min(closest, at - (last.get(athleteId) ?? Number.NEGATIVE_INFINITY));
    last.set(athleteId, at);
  }
  return closest;
}
