/*
 * Three replicas on a saturating backlog against a provider that counts strictly: how much of each window's
 * budget is used, whether it is ever exceeded, and the same with one replica killed -9 in each window. The
 * interval is scaled to 12 s; capacity is the real one.
 * Run: node bench/saturation.ts [windows]
 */

import { systemClock } from '../src/domain/clock.ts';
import type { Reason } from '../src/domain/job.ts';
import { createBoss } from '../src/infra/boss.ts';
import { openDatabase } from '../src/infra/database.ts';
import { createSilentLogger } from '../src/infra/logger.ts';
import { startSimulator } from '../src/simulator/simulator.ts';
import { freePort, type ServiceProcess, startServiceProcess } from '../test/support/service-process.ts';
import { printGoal, printTable } from './support/figures.ts';
import { startBenchPostgres } from './support/postgres.ts';
import { connectAthletes, requestAll } from './support/seed-jobs.ts';
import { serviceEnvironment } from './support/service-environment.ts';

const WINDOWS = Number(process.argv[2] ?? 10);
const INTERVAL_MS = 12_000;
const CAPACITY = 600;
const REPLICAS = 3;
const ATHLETES = 300;
const USED_AT_LEAST = 0.98;

const postgres = await startBenchPostgres();
const rows: (string | number)[][] = [['', 'windows', 'calls in each, least', 'most', 'available', 'used', '429']];
const met: boolean[] = [];
try {
  for (const killing of [false, true]) {
    for (const reason of ['polling', 'webhook'] as const) {
      const { counts, throttled } = await saturate(reason, killing);
      const available = reason === 'webhook' ? CAPACITY : CAPACITY * 0.9;
      const used = counts.reduce((sum, n) => sum + n, 0) / (available * counts.length);
      const what = `${reason}${killing ? ', one replica killed in each window' : ''}`;
      rows.push([
        what,
        counts.length,
        Math.min(...counts),
        Math.max(...counts),
        available,
        `${(used * 100).toFixed(1)}%`,
        throttled,
      ]);
      met.push(printGoal(`${what}: at least 98% used`, used >= USED_AT_LEAST));
      met.push(
        printGoal(
          `${what}: never more than ${CAPACITY} in a window, and no 429`,
          Math.max(...counts) <= CAPACITY && throttled === 0,
        ),
      );
    }
  }
  printTable(rows);
  process.exitCode = met.every(Boolean) ? 0 : 1;
} finally {
  await postgres.stop();
}

async function saturate(reason: Reason, killing: boolean): Promise<{ counts: number[]; throttled: number }> {
  const url = await postgres.createDatabase();
  const simulator = await startSimulator({
    shortLimit: CAPACITY,
    dailyLimit: 100_000_000,
    intervalMs: INTERVAL_MS,
    latencyMs: 20,
  });
  const database = openDatabase({
    connectionString: url,
    maxConnections: 3,
    applicationName: 'bench',
    onError: console.error,
  });
  const boss = createBoss({
    database,
    clock: systemClock,
    logger: createSilentLogger(),
    migrate: false,
    supervise: false,
  });
  const replicas: ServiceProcess[] = [];
  try {
    await boss.start();
    const each = Math.ceil((CAPACITY * (WINDOWS + 2)) / ATHLETES);
    const athletes = Array.from({ length: ATHLETES }, () => {
      const athleteId = simulator.addAthlete().id;
      const activityIds = Array.from({ length: each }, () => simulator.addActivity(athleteId).id);
      return { athleteId, activityIds, ...simulator.grantTokens(athleteId) };
    });
    await connectAthletes(database, athletes);
    await requestAll(database, boss, athletes, reason);
    const startReplica = async () => {
      const env = serviceEnvironment(url, await freePort(), {
        PROVIDER_API_URL: simulator.url,
        PROVIDER_RATE_LIMIT_CAPACITY: String(CAPACITY),
        PROVIDER_RATE_LIMIT_INTERVAL: String(INTERVAL_MS),
        PROVIDER_ATHLETE_COOLDOWN: '0',
        FETCH_STALE_AFTER_MS: '2000',
        FETCH_BACKOFF_BASE_MS: '100',
        SERVICE_ROLES: 'fetch',
        LOG_LEVEL: 'error',
      });
      replicas.push(startServiceProcess(env));
    };
    for (let n = 0; n < REPLICAS; n += 1) await startReplica();
    await Promise.all(replicas.map((replica) => replica.ready()));
    const first = await nextTurn();
    for (let window = 0; window < WINDOWS; window += 1) {
      if (killing) {
        await pause(INTERVAL_MS * 0.3);
        await replicas.shift()?.end('SIGKILL');
        await startReplica();
      }
      await nextTurn();
      console.log(`${reason}${killing ? ', killing' : ''}: window ${window + 1} of ${WINDOWS}`);
    }
    const calls = simulator.calls.filter(
      (call) => call.counted && call.window >= first && call.window < first + WINDOWS * INTERVAL_MS,
    );
    const perWindow = Map.groupBy(calls, (call) => call.window);
    const counts = Array.from({ length: WINDOWS }, (_, n) => perWindow.get(first + n * INTERVAL_MS)?.length ?? 0);
    return { counts, throttled: calls.filter((call) => call.status === 429).length };
  } finally {
    await Promise.all(replicas.map((replica) => replica.end('SIGKILL')));
    await boss.stop({ graceful: false, close: false });
    await database.close();
    await simulator.close();
  }
}

/** Waits for the window to turn. @returns the start of the new window */
async function nextTurn(): Promise<number> {
  const start = (Math.floor(Date.now() / INTERVAL_MS) + 1) * INTERVAL_MS;
  await pause(start - Date.now());
  return start;
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}
