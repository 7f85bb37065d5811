/*
 * What it costs to claim a job out of 1,000, 100,000 and 1,000,000 that wait. One athlete owns half of
 * them, all older than the other athletes'; the rest belong to 1,000 athletes. Run: node bench/claim.ts [most jobs]
 */
import { systemClock } from '../src/domain/clock.ts';
import { createBoss } from '../src/infra/boss.ts';
import { openDatabase } from '../src/infra/database.ts';
import { createSilentLogger } from '../src/infra/logger.ts';
import { createBudget } from '../src/queue/budget.ts';
import { claimRun } from '../src/queue/claim.ts';
import { requestFetches } from '../src/queue/requests.ts';
import { percentile, printGoal, printTable } from './support/figures.ts';
import { startBenchPostgres } from './support/postgres.ts';

const SIZES = [1000, 100_000, 1_000_000].filter((size) => size <= Number(process.argv[2] ?? 1_000_000));
const ATHLETES = 1000;
const CLAIMS = 400;
const BATCH = 10_000;
const HOLD_MS = 3_600_000; // no athlete is claimed twice
const HEAVY_ATHLETE = '1';
let nextActivity = 0;

const postgres = await startBenchPostgres(['-c', 'max_wal_size=4GB']);
const url = await postgres.createDatabase();
const database = openDatabase({
  connectionString: url,
  maxConnections: 2,
  applicationName: 'bench',
  onError: () => undefined,
});
const boss = createBoss({
  database,
  clock: systemClock,
  logger: createSilentLogger(),
  migrate: false,
  supervise: false,
});
const medians: number[] = [];
const rows: (string | number)[][] = [['waiting', 'p50 ms', 'p99 ms', 'athlete with half of them, ms']];
try {
  await boss.start();
  await createBudget(database).configure({ capacity: 1_000_000_000, intervalMs: 900_000 });
  await database.query(
    `INSERT INTO athlete (athlete_id, access_token, refresh_token, token_expires_at, scope)
     SELECT n, 'sealed', 'sealed', now() + interval '1 day', 'read' FROM generate_series(1, ${ATHLETES + 1}) n`,
  );
  let filled = 0;
  for (const size of SIZES) {
    filled = await fillTo(size, filled);
    await database.query(
      `UPDATE athlete_schedule SET cooldown_until = '-infinity';
       UPDATE lane SET due_at = now() - interval '1 hour' * (athlete_id = ${HEAVY_ATHLETE})::int`,
    );
    await database.query('VACUUM ANALYZE'); // as autovacuum does within a minute of so many changes
    await database.query('CHECKPOINT');
    const latencies: number[] = [];
    let heavyMs = Number.NaN;
    for (let claim = 0; claim < CLAIMS; claim += 1) {
      const startedAt = performance.now();
      const { run } = await claimRun(database, boss, { processId: 1, holdMs: HOLD_MS });
      const ms = performance.now() - startedAt;
      if (run?.athleteId === HEAVY_ATHLETE) heavyMs = ms;
      if (claim >= 20) latencies.push(ms); // the first ones plan
      filled -= run ? 1 : 0;
    }
    medians.push(percentile(latencies, 0.5));
    rows.push([
      size.toLocaleString('en'),
      percentile(latencies, 0.5).toFixed(2),
      percentile(latencies, 0.99).toFixed(2),
      heavyMs.toFixed(2),
    ]);
  }
  console.log(`claim: one job in one transaction, ${CLAIMS} claims`);
  printTable(rows);
  printGoal('p50 within a factor of 1.5 of each other', Math.max(...medians) / Math.min(...medians) <= 1.5);
} finally {
  await boss.stop({ graceful: false, close: false });
  await database.close();
  await postgres.stop();
}

/** Requests fetches until that many wait; the heavy athlete's come first. @returns how many then wait */
async function fillTo(size: number, from: number): Promise<number> {
  for (let next = from; next < size; ) {
    const count = Math.min(BATCH, size - next);
    const requests = Array.from({ length: count }, (_, n) => ({
      activityId: String(1_000_000_000 + nextActivity++),
      athleteId: n < count / 2 ? HEAVY_ATHLETE : String(2 + (n % ATHLETES)),
      reason: 'webhook' as const,
      force: false,
    }));
    await database.transaction((tx) => requestFetches(boss, tx, requests));
    next += count;
  }
  return size;
}
