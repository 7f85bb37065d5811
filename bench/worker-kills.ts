/*
 * Two fetch replicas with default settings, but no cooldown and a budget that never closes; one of them is killed with
 * SIGKILL every 20 s while ten webhooks a second come. How long an activity then takes from its webhook until it is stored.
 * Run: node bench/worker-kills.ts [kills, 6 unless given]
 */
import { setTimeout as pause } from 'node:timers/promises';
import { openDatabase } from '../src/infra/database.ts';
import { freePort, type ServiceProcess, startServiceProcess } from '../test/support/service-process.ts';
import { percentile, printGoal, printTable } from './support/figures.ts';
import { startBenchPostgres } from './support/postgres.ts';
import { connectAthletes } from './support/seed-jobs.ts';
import { serviceEnvironment } from './support/service-environment.ts';
import { startSimulatorProcess } from './support/simulator-process.ts';

const KILLS = Number(process.argv[2] ?? 6);
const KILL_EVERY_S = 20;
const EVENTS_PER_S = 10;
const ATHLETES = 50;
const PROVIDER_MS = 300; // three calls are under way at any time
const STORED_WITHIN_MS = 120_000;
const KNOWN_SUBSCRIPTION = 1;
const TOTAL = (KILLS + 1) * KILL_EVERY_S * EVENTS_PER_S;

const postgres = await startBenchPostgres();
const simulator = await startSimulatorProcess({ latencyMs: PROVIDER_MS });
const databaseUrl = await postgres.createDatabase();
const database = openDatabase({
  connectionString: databaseUrl,
  maxConnections: 2,
  applicationName: 'bench',
  onError: (error) => process.stderr.write(`${error.message}\n`),
});
const replicas: ServiceProcess[] = [];
const web = await start('web');
try {
  const athletes = await simulator.addAthletes(Array.from({ length: ATHLETES }, () => Math.ceil(TOTAL / ATHLETES)));
  await connectAthletes(database, athletes);
  replicas.push(await start('fetch'), await start('fetch'));
  await Promise.all([deliver(athletes), killAgainAndAgain()]);
  const missing = await untilStored();
  const waits = await database.query<{ ms: number }>(
    `SELECT extract(epoch FROM a.fetched_at - e.received_at)::float8 * 1000 AS ms
     FROM activity a JOIN webhook_event e ON e.object_id = a.activity_id`,
  );
  const ms = waits.map((row) => row.ms);
  const [attempts] = await database.query<{ n: number }>('SELECT count(*)::int AS n FROM fetch_attempt');
  printTable([
    ['', 'figure'],
    ['webhooks', TOTAL],
    ['kills', KILLS],
    ['runs that were reclaimed', attempts?.n ?? 0],
    ['not stored', missing],
    ['webhook → stored p50 ms', percentile(ms, 0.5).toFixed(0)],
    ['p99 ms', percentile(ms, 0.99).toFixed(0)],
    ['slowest ms', Math.max(...ms).toFixed(0)],
  ]);
  printGoal('every activity is stored', missing === 0);
  printGoal('99 of 100 are stored within 10 s', percentile(ms, 0.99) < 10_000);
} finally {
  for (const one of [web, ...replicas]) await one.end('SIGKILL');
  await database.close();
  await simulator.stop();
  await postgres.stop();
}

async function start(roles: string): Promise<ServiceProcess> {
  const service = startServiceProcess(
    serviceEnvironment(databaseUrl, await freePort(), {
      SERVICE_ROLES: roles,
      PROVIDER_API_URL: simulator.url,
      PROVIDER_RATE_LIMIT_CAPACITY: '100000000',
      PROVIDER_ATHLETE_COOLDOWN: '0',
    }),
    { quiet: true },
  );
  await service.ready();
  return service;
}

/** Delivers each activity once, evenly in time. */
async function deliver(athletes: readonly { athleteId: string; activityIds: string[] }[]): Promise<void> {
  const startedAt = performance.now();
  for (let n = 0; n < TOTAL; n += 1) {
    await pause(Math.max(0, startedAt + (n * 1000) / EVENTS_PER_S - performance.now()));
    const { athleteId, activityIds } = athletes[n % ATHLETES] as (typeof athletes)[number];
    const ids = `"object_id":${activityIds[Math.floor(n / ATHLETES)]},"owner_id":${athleteId},"subscription_id":${KNOWN_SUBSCRIPTION}`;
    const answer = await fetch(`${web.url}/api/provider/webhook`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: `{"object_type":"activity","aspect_type":"create",${ids},"event_time":${Math.floor(Date.now() / 1000)},"updates":{}}`,
    });
    await answer.arrayBuffer();
    if (answer.status !== 200) throw new Error(`A webhook was answered ${answer.status}.`);
  }
}

async function killAgainAndAgain(): Promise<void> {
  for (let kill = 1; kill <= KILLS; kill += 1) {
    await pause(KILL_EVERY_S * 1000);
    const oldest = replicas.shift() as ServiceProcess;
    await oldest.end('SIGKILL');
    console.log(`kill ${kill} of ${KILLS}`);
    replicas.push(await start('fetch'));
  }
}

/** @returns how many are missing after two minutes */
async function untilStored(): Promise<number> {
  const deadline = performance.now() + STORED_WITHIN_MS;
  for (;;) {
    const [row] = await database.query<{ n: number }>('SELECT count(*)::int AS n FROM activity');
    const missing = TOTAL - (row?.n ?? 0);
    if (missing === 0 || performance.now() > deadline) return missing;
    await pause(100);
  }
}
