/*
 * Three replicas with more to fetch than the provider allows, over shortened windows:
 *   - how much of each class's budget is used, and that no window exceeds its capacity or gets a 429
 *   - the same with one replica killed -9 in each window
 *   - how long a webhook takes during a bulk sync that uses its whole share
 *   - when 200 athletes with one activity each finish beside five with 5,000 each
 * Run: node bench/saturation.ts [windows] [milliseconds of a window]
 */
import { setTimeout as pause } from 'node:timers/promises';
import { notify } from '../src/infra/notify.ts';
import { percentile, printGoal, printTable } from './support/figures.ts';
import { closestCalls, type Fleet, startFleet, type WindowUse, watchWindows } from './support/fleet.ts';
import { type BenchPostgres, startBenchPostgres } from './support/postgres.ts';
import { connectAthletes, requestAll } from './support/seed-jobs.ts';

const WINDOWS = Number(process.argv[2] ?? 10);
const INTERVAL_MS = Number(process.argv[3] ?? 6000);
const CAPACITY = 300;
const REPLICAS = 3;
const LAST_TENTH = 0.9;
const PRODUCTION_INTERVAL_MS = 900_000;
const WEBHOOK_LIMIT_MS = 30_000;

const postgres = await startBenchPostgres();
try {
  console.log(
    `saturation: ${REPLICAS} replicas, ${CAPACITY} calls in a window of ${INTERVAL_MS / 1000} s, ${WINDOWS} windows each`,
  );
  const rows: (string | number)[][] = [['', 'fewest', 'most', 'of available', '429', 'closest calls ms']];
  const goals: [string, boolean][] = [];
  for (const [name, reason, killed] of [
    ['polling', 'polling', false],
    ['webhooks', 'webhook', false],
    ['polling, kill -9 in each window', 'polling', true],
    ['webhooks, kill -9 in each window', 'webhook', true],
  ] as const) {
    const available = reason === 'webhook' ? CAPACITY : CAPACITY * LAST_TENTH;
    const { windows, closest } = await saturate(postgres, reason, killed);
    const used = windows.reduce((sum, { calls }) => sum + calls, 0) / (windows.length * available);
    const most = Math.max(...windows.map(({ calls }) => calls));
    const refused = windows.reduce((sum, window) => sum + window.refused, 0);
    rows.push([
      name,
      Math.min(...windows.map(({ calls }) => calls)),
      most,
      `${(used * 100).toFixed(1)} %`,
      refused,
      closest.toFixed(0),
    ]);
    goals.push([`${name}: no 429 and never more than ${available}`, refused === 0 && most <= available]);
    goals.push([`${name}: at least 98 % used`, used >= 0.98]);
  }
  printTable(rows);
  for (const [what, met] of goals) printGoal(what, met);
  await measureWebhooks(postgres);
  await measureFairness(postgres);
} finally {
  await postgres.stop();
}

async function withFleet<T>(
  postgres: BenchPostgres,
  intervalMs: number,
  work: (fleet: Fleet) => Promise<T>,
): Promise<T> {
  const databaseUrl = await postgres.createDatabase();
  const fleet = await startFleet({ databaseUrl, replicas: REPLICAS, capacity: CAPACITY, intervalMs });
  try {
    return await work(fleet);
  } finally {
    await fleet.stop();
  }
}

function saturate(
  postgres: BenchPostgres,
  reason: 'polling' | 'webhook',
  killed: boolean,
): Promise<{ windows: WindowUse[]; closest: number }> {
  return withFleet(postgres, INTERVAL_MS, async (fleet) => {
    const athletes = await fleet.simulator.addAthletes(
      Array.from({ length: 400 }, () => Math.ceil(((WINDOWS + 3) * CAPACITY) / 400)),
    );
    await connectAthletes(fleet.database, athletes);
    await requestAll(fleet.database, athletes, reason);
    const { windows, calls } = await watchWindows(
      fleet,
      INTERVAL_MS,
      WINDOWS,
      killed ? () => fleet.killOne() : undefined,
    );
    return { windows, closest: closestCalls(calls) };
  });
}

async function measureWebhooks(postgres: BenchPostgres): Promise<void> {
  const intervalMs = INTERVAL_MS * 3;
  const limitMs = (WEBHOOK_LIMIT_MS * intervalMs) / PRODUCTION_INTERVAL_MS;
  const latencies = await withFleet(postgres, intervalMs, async ({ database, simulator, webUrl }) => {
    const athletes = await simulator.addAthletes(Array.from({ length: 400 }, () => 51));
    const bulk = athletes.map((athlete) => ({ ...athlete, activityIds: athlete.activityIds.slice(1) }));
    await connectAthletes(database, athletes);
    await requestAll(database, bulk, 'manual');
    // Fewer than the last tenth of a window, which is reserved for them.
    const perWindow = CAPACITY * (1 - LAST_TENTH) * 0.8;
    const windows = Math.max(2, Math.ceil(WINDOWS / 3));
    for (let n = 0; n < perWindow * windows; n += 1) {
      await pause((intervalMs / perWindow) * (0.5 + Math.random()));
      const { athleteId, activityIds } = athletes[n] ?? athletes[0] ?? { athleteId: '', activityIds: [] };
      const answer = await fetch(`${webUrl}/api/provider/webhook`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: `{"object_type":"activity","object_id":${activityIds[0]},"aspect_type":"create","owner_id":${athleteId},"subscription_id":1,"event_time":${Math.floor(Date.now() / 1000)},"updates":{}}`,
      });
      await answer.arrayBuffer();
      if (answer.status !== 200) throw new Error(`A webhook was answered with ${answer.status}.`);
    }
    await pause(limitMs);
    const rows = await database.query<{ ms: number | null }>(
      `SELECT extract(epoch FROM a.fetched_at - w.received_at)::float8 * 1000 AS ms
       FROM webhook_event w LEFT JOIN activity a ON a.activity_id = w.object_id`,
    );
    return rows.map(({ ms }) => ms ?? Number.POSITIVE_INFINITY);
  });
  const cooldownMs = limitMs / 2;
  console.log(
    `\nwebhooks during a bulk sync of 20,000: ${latencies.length}, p50 ${percentile(latencies, 0.5).toFixed(0)} ms, p99 ${percentile(latencies, 0.99).toFixed(0)} ms (windows of ${intervalMs / 1000} s: 30 s are ${limitMs} ms, the cooldown is ${cooldownMs} ms)`,
  );
  printGoal(
    `webhook to stored under 30 s of a window at p99, besides the athlete's own cooldown`,
    percentile(latencies, 0.99) <= limitMs + cooldownMs,
  );
}

async function measureFairness(postgres: BenchPostgres): Promise<void> {
  const alone = await timeLight(postgres, 0);
  const beside = await timeLight(postgres, 5);
  console.log(
    `\nfairness: 200 athletes with one job each, from a window's start: alone ${alone.toFixed(2)} s, beside five athletes with 5,000 each ${beside.toFixed(2)} s`,
  );
  printGoal('the 200 within the time alone plus 10 %', beside <= alone * 1.1);
}

/** How long the 200 take from the start of a window, in seconds. */
function timeLight(postgres: BenchPostgres, heavy: number): Promise<number> {
  return withFleet(postgres, INTERVAL_MS, async ({ database, simulator }) => {
    const athletes = await simulator.addAthletes([...Array<number>(heavy).fill(5000), ...Array<number>(200).fill(1)]);
    await connectAthletes(database, athletes);
    const light = athletes.slice(heavy).map(({ athleteId }) => athleteId);
    const blockUntil = (at: number) =>
      database.query(
        `UPDATE rate_budget SET blocked_until = to_timestamp($1::float8 / 1000), blocked_by = 'the benchmark'`,
        [at],
      );
    await blockUntil(Date.now() + 3_600_000);
    await requestAll(database, athletes, 'manual');
    const startsAt = (Math.floor(Date.now() / INTERVAL_MS) + 2) * INTERVAL_MS;
    await blockUntil(startsAt);
    await notify(database, 'budget');
    for (;;) {
      const [row] = await database.query<{ open: boolean }>(
        'SELECT EXISTS (SELECT FROM activity_fetch_job WHERE outcome IS NULL AND athlete_id = ANY ($1::bigint[])) AS open',
        [light],
      );
      if (!row?.open) return (Date.now() - startsAt) / 1000;
      await pause(20);
    }
  });
}
