/*
 * Grants a second of the shared budget beside rate-limiter-flexible on PostgreSQL, at 1, 8 and 32 clients,
 * alternating in one run. Neither refuses: each grant is written. Run: node bench/bucket.ts
 */
import pg from 'pg';
import { RateLimiterPostgres } from 'rate-limiter-flexible';
import { openDatabase } from '../src/infra/database.ts';
import { createBudget } from '../src/queue/budget.ts';
import { median, percentile, printGoal, printTable } from './support/figures.ts';
import { startBenchPostgres } from './support/postgres.ts';

const CLIENTS = [1, 8, 32];
const ROUNDS = 3;
const ROUND_MS = 1500;
const CAPACITY = 1_000_000_000;

const postgres = await startBenchPostgres();
const url = await postgres.createDatabase();
const plainUrl = await postgres.createDatabase(false);
const rows: (string | number)[][] = [['clients', 'ours/s', 'p99 ms', 'rate-limiter-flexible/s', 'p99 ms', 'ratio']];
let met = true;
try {
  for (const clients of CLIENTS) {
    const database = openDatabase({
      connectionString: url,
      maxConnections: clients,
      applicationName: 'bench',
      onError: () => undefined,
    });
    const budget = createBudget(database);
    await budget.configure({ capacity: CAPACITY, intervalMs: 900_000 });
    const pool = new pg.Pool({ connectionString: plainUrl, max: clients });
    const limiter = await createLimiter(pool);
    const takeOurs = async () => {
      if (await budget.take('webhook')) throw new Error('The budget refused a call.');
    };
    const takeTheirs = async () => {
      await limiter.consume('provider');
    };
    await measure(clients, takeOurs);
    await measure(clients, takeTheirs);
    const ours: Measured[] = [];
    const theirs: Measured[] = [];
    for (let round = 0; round < ROUNDS; round += 1) {
      ours.push(await measure(clients, takeOurs));
      theirs.push(await measure(clients, takeTheirs));
    }
    const ratio = median(ours.map(({ perSecond }, n) => perSecond / (theirs[n]?.perSecond ?? Number.NaN)));
    met &&= ratio >= 1;
    rows.push([
      clients,
      median(ours.map(({ perSecond }) => perSecond)).toFixed(0),
      median(ours.map(({ p99Ms }) => p99Ms)).toFixed(1),
      median(theirs.map(({ perSecond }) => perSecond)).toFixed(0),
      median(theirs.map(({ p99Ms }) => p99Ms)).toFixed(1),
      ratio.toFixed(2),
    ]);
    await database.close();
    await pool.end();
  }
  console.log(`bucket: grants a second, median of ${ROUNDS} rounds of ${ROUND_MS / 1000} s`);
  printTable(rows);
  printGoal('at least as many grants as rate-limiter-flexible at every number of clients', met);
} finally {
  await postgres.stop();
}

interface Measured {
  perSecond: number;
  p99Ms: number;
}

async function measure(clients: number, take: () => Promise<void>): Promise<Measured> {
  const latencies: number[] = [];
  const startedAt = performance.now();
  const endAt = startedAt + ROUND_MS;
  const runClient = async () => {
    while (performance.now() < endAt) {
      const takenAt = performance.now();
      await take();
      latencies.push(performance.now() - takenAt);
    }
  };
  await Promise.all(Array.from({ length: clients }, runClient));
  return {
    perSecond: (latencies.length / (performance.now() - startedAt)) * 1000,
    p99Ms: percentile(latencies, 0.99),
  };
}

function createLimiter(pool: pg.Pool): Promise<RateLimiterPostgres> {
  return new Promise((resolve, reject) => {
    const limiter = new RateLimiterPostgres(
      { storeClient: pool, points: CAPACITY, duration: 900, tableName: 'limiter', keyPrefix: 'bench' },
      (error) => (error ? reject(error) : resolve(limiter)),
    );
  });
}
