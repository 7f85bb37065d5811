/*
 * The full path of a job (claim, call, store, complete) beside pg-boss draining jobs that do nothing, at
 * the same concurrency and turn about in one run. The provider answers at once and limits nothing.
 * Run: node bench/drain.ts [jobs in a round]
 */
import { type Database, openDatabase } from '../src/infra/database.ts';
import { freePort, startServiceProcess } from '../test/support/service-process.ts';
import { median, printGoal, printTable } from './support/figures.ts';
import { startNoopDrain } from './support/noop-drain.ts';
import { startBenchPostgres } from './support/postgres.ts';
import { connectAthletes, requestAll } from './support/seed-jobs.ts';
import { serviceEnvironment } from './support/service-environment.ts';
import { startSimulatorProcess } from './support/simulator-process.ts';

const CONCURRENCY = 3;
const ATHLETES = 200;
const ROUNDS = 5;
const JOBS = Number(process.argv[2] ?? 4000);

const postgres = await startBenchPostgres();
const simulator = await startSimulatorProcess();
const url = await postgres.createDatabase();
const noop = await startNoopDrain(await postgres.createDatabase(false), CONCURRENCY);
const database = openDatabase({
  connectionString: url,
  maxConnections: 3,
  applicationName: 'bench',
  onError: () => undefined,
});
const service = startServiceProcess(
  serviceEnvironment(url, await freePort(), {
    SERVICE_ROLES: 'fetch',
    PROVIDER_API_URL: simulator.url,
    PROVIDER_RATE_LIMIT_CAPACITY: '100000000',
    PROVIDER_ATHLETE_COOLDOWN: '0',
    FETCH_CONCURRENCY: String(CONCURRENCY),
  }),
  { quiet: true },
);
try {
  await service.ready();
  await noop.run(JOBS);
  await drainOurs(database);
  const ours: number[] = [];
  const theirs: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    theirs.push((JOBS / (await noop.run(JOBS))) * 1000);
    ours.push((JOBS / (await drainOurs(database))) * 1000);
  }
  const ratios = ours.map((rate, n) => rate / (theirs[n] ?? Number.NaN));
  console.log(`drain: ${JOBS} jobs, ${ATHLETES} athletes, concurrency ${CONCURRENCY}, median of ${ROUNDS} rounds`);
  printTable([
    ['', 'jobs/s', 'ratio'],
    ['pg-boss, no-op', median(theirs).toFixed(0), '1.00'],
    ['full path', median(ours).toFixed(0), median(ratios).toFixed(2)],
  ]);
  printGoal('the full path drains at least half as fast as pg-boss drains nothing', median(ratios) >= 0.5);
} finally {
  await service.end('SIGTERM');
  await noop.stop();
  await database.close();
  await simulator.stop();
  await postgres.stop();
}

async function drainOurs(database: Database): Promise<number> {
  const athletes = await simulator.addAthletes(Array.from({ length: ATHLETES }, () => Math.ceil(JOBS / ATHLETES)));
  await connectAthletes(database, athletes);
  await requestAll(database, athletes, 'webhook');
  await database.query('ANALYZE'); // as autovacuum does within a minute of so many changes
  const startedAt = performance.now();
  for (;;) {
    const [row] = await database.query<{ open: boolean }>(
      'SELECT EXISTS (SELECT FROM activity_fetch_job WHERE outcome IS NULL) AS open',
    );
    if (!row?.open) return performance.now() - startedAt;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
