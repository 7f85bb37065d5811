/*
 * What a claim costs out of 1,000, 100,000 and 1,000,000 waiting jobs, with the backlog of the worst athlete
 * (a tenth of all jobs, not yet due again) at the head.
 * Run: node bench/claim.ts
 */
import pg from 'pg';
import { systemClock } from '../src/domain/clock.ts';
import { createBoss } from '../src/infra/boss.ts';
import { openDatabase } from '../src/infra/database.ts';
import { createSilentLogger } from '../src/infra/logger.ts';
import { requestFetches } from '../src/queue/requests.ts';
import { percentile, printGoal, printTable } from './support/figures.ts';
import { startBenchPostgres } from './support/postgres.ts';

const SIZES = [1000, 100_000, 1_000_000];
const CLAIMS = 300;
const ATHLETES = 900;
const BATCH = 10_000;
const WORST = '1';

const postgres = await startBenchPostgres();
try {
  const p50: number[] = [];
  const rows: (string | number)[][] = [['waiting jobs', 'claim p50 ms', 'p99 ms']];
  for (const size of SIZES) {
    const url = await postgres.createDatabase();
    await fill(url, size);
    const latencies = await measure(url);
    p50.push(percentile(latencies, 0.5));
    rows.push([size, percentile(latencies, 0.5).toFixed(2), percentile(latencies, 0.99).toFixed(2)]);
    console.log(`${size} measured`);
  }
  printTable(rows);
  const spread = Math.max(...p50) / Math.min(...p50);
  process.exitCode = printGoal(`p50 within a factor of 1.5 of each other (${spread.toFixed(2)})`, spread <= 1.5)
    ? 0
    : 1;
} finally {
  await postgres.stop();
}

async function fill(url: string, size: number): Promise<void> {
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
  await boss.start();
  await database.query(`UPDATE rate_budget SET capacity = 2000000000, interval_ms = 86400000, guard_ms = 0`);
  await database.query(
    `INSERT INTO athlete (athlete_id, access_token, refresh_token, token_expires_at, scope)
     SELECT n, 'sealed', 'sealed', now() + interval '1 hour', 'read' FROM generate_series(1, ${ATHLETES + 1}) n`,
  );
  // The worst athlete's jobs first: they are the oldest.
  for (let from = 0; from < size; from += BATCH) {
    const requests = Array.from({ length: Math.min(BATCH, size - from) }, (_, n) => ({
      activityId: String(from + n + 1),
      athleteId: from + n < size / 10 ? WORST : String(2 + ((from + n) % ATHLETES)),
      reason: 'webhook' as const,
      force: false,
    }));
    await database.transaction((tx) => requestFetches(boss, tx, requests));
  }
  await database.query(
    `UPDATE athlete_schedule SET cooldown_until = now() + interval '1 hour', webhook_due_at = now() + interval '1 hour' WHERE athlete_id = ${WORST}`,
  );
  await database.query('VACUUM ANALYZE');
  await boss.stop({ graceful: false, close: false });
  await database.close();
}

/** Claims one job at a time, as a worker with one free slot does. */
async function measure(url: string): Promise<number[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const latencies: number[] = [];
  for (let n = 0; n < CLAIMS + 20; n += 1) {
    const startedAt = performance.now();
    const { rows } = await client.query<{ claim: string }>({
      name: 'claim',
      text: 'SELECT claim FROM claim_runs(1, 0)',
    });
    if (rows[0]?.claim !== 'run') throw new Error(`The claim answered ${rows[0]?.claim}.`);
    if (n >= 20) latencies.push(performance.now() - startedAt); // the first ones plan
  }
  await client.end();
  return latencies;
}
