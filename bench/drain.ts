/*
 * The full path of a job (claim, call, store, complete) beside pg-boss draining jobs that do nothing, at
 * the same concurrency, alternating in one run: at the service's default, and with more calls at a time,
 * where more jobs share a round trip to the database. The provider answers at once and limits nothing.
 * Run: node bench/drain.ts [jobs in a round]
 */
import { type Database, openDatabase } from '../src/infra/database.ts';
import { freePort, startServiceProcess } from '../test/support/service-process.ts';
import { median, printGoal, printTable } from './support/figures.ts';
import { startNoopDrain } from './support/noop-drain.ts';
import { startPlainProvider } from './support/plain-provider.ts';
import { startBenchPostgres } from './support/postgres.ts';
import { connectAthletes, requestAll } from './support/seed-jobs.ts';
import { serviceEnvironment } from './support/service-environment.ts';

const CONCURRENCIES = [3, 10];
const ATHLETES = 200;
const ROUNDS = 9;
const JOBS = Number(process.argv[2] ?? 2000);

const provider = await startPlainProvider();
const postgres = await startBenchPostgres();
try {
  const measured: { concurrency: number; theirs: number; ours: number; ratio: number }[] = [];
  const ratioAt = (concurrency: number) => measured.find((one) => one.concurrency === concurrency)?.ratio ?? Number.NaN;
  for (const concurrency of CONCURRENCIES) measured.push({ concurrency, ...(await measure(concurrency)) });
  console.log(`drain: ${JOBS} jobs, ${ATHLETES} athletes, medians of ${ROUNDS} rounds`);
  printTable([
    ['concurrency', 'pg-boss, no-op: jobs/s', 'full path: jobs/s', 'ratio'],
    ...measured.map(({ concurrency, theirs, ours, ratio }) => [
      concurrency,
      theirs.toFixed(0),
      ours.toFixed(0),
      ratio.toFixed(2),
    ]),
  ]);
  printGoal('at 3, the full path drains at least 0.3 times as fast as pg-boss drains nothing', ratioAt(3) >= 0.3);
} finally {
  await provider.stop();
  await postgres.stop();
}

async function measure(concurrency: number): Promise<{ theirs: number; ours: number; ratio: number }> {
  const url = await postgres.createDatabase();
  const noop = await startNoopDrain(await postgres.createDatabase(false), concurrency);
  const database = openDatabase({
    connectionString: url,
    maxConnections: 3,
    applicationName: 'bench',
    onError: () => undefined,
  });
  const service = startServiceProcess(
    serviceEnvironment(url, await freePort(), {
      SERVICE_ROLES: 'fetch',
      PROVIDER_API_URL: provider.url,
      PROVIDER_RATE_LIMIT_CAPACITY: '100000000',
      PROVIDER_ATHLETE_COOLDOWN: '0',
      FETCH_CONCURRENCY: String(concurrency),
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
    return { theirs: median(theirs), ours: median(ours), ratio: median(ratios) };
  } finally {
    await service.end('SIGTERM');
    await noop.stop();
    await database.close();
  }
}

async function drainOurs(database: Database): Promise<number> {
  const athletes = provider.addAthletes(Array.from({ length: ATHLETES }, () => Math.ceil(JOBS / ATHLETES)));
  await connectAthletes(database, athletes);
  await requestAll(database, athletes, 'webhook');
  const startedAt = performance.now();
  await provider.arrivals(JOBS); // watching the database would distort the measurement
  for (;;) {
    const [row] = await database.query<{ open: boolean }>(
      'SELECT EXISTS (SELECT FROM activity_fetch_job WHERE outcome IS NULL) AS open',
    );
    if (!row?.open) break;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  const drainedMs = performance.now() - startedAt;
  const failed = await database.query(`SELECT id FROM activity_fetch_job WHERE outcome <> 'stored'`);
  if (failed.length > 0) throw new Error(`${failed.length} of the drained jobs were not stored.`);
  return drainedMs;
}
