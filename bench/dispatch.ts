import pg from 'pg';
import { startService } from '../src/compose.ts';
import { readConfig } from '../src/infra/config.ts';
import { createSilentLogger } from '../src/infra/logger.ts';
import { startSimulator } from '../src/simulator/simulator.ts';
import { percentile, printGoal, printTable } from './support/figures.ts';
import { startBenchPostgres } from './support/postgres.ts';
import { connectAthletes, ENCRYPTION_KEY, requestAll } from './support/seed-jobs.ts';
import { serviceEnvironment } from './support/service-environment.ts';

// How long the main path takes: one webhook on an idle system, a hundred at once, a backlog found at start.
const IDLE = 200;
const BURST = 100;
const BACKLOG = 10_000;
const ATHLETES = 200;
const DEADLINE_MS = 240_000;

const postgres = await startBenchPostgres();
const simulator = await startSimulator({ latencyMs: 20, shortLimit: 10_000_000, dailyLimit: 1_000_000_000 });
try {
  const url = await postgres.createDatabase();
  const config = readConfig(
    serviceEnvironment(url, 0, {
      PROVIDER_API_URL: simulator.url,
      PROVIDER_ATHLETE_COOLDOWN: '0',
      PROVIDER_RATE_LIMIT_CAPACITY: '10000000',
      PROVIDER_AUTO_SYNC_ENABLED: 'false',
    }),
  );
  const options = { config, connectionString: url, encryptionKeys: [ENCRYPTION_KEY], logger: createSilentLogger() };
  const athletes = Array.from({ length: ATHLETES }, () => {
    const athleteId = simulator.addAthlete().id;
    const activityIds = Array.from({ length: 2 + BACKLOG / ATHLETES }, () => simulator.addActivity(athleteId).id);
    return { athleteId, activityIds, ...simulator.grantTokens(athleteId) };
  });
  const listener = new pg.Client({ connectionString: url });
  await listener.connect();

  let service = await startService(options);
  await connectAthletes(service.database, athletes);
  const post = async (athleteId: string, activityId: string) => {
    const body = `{"object_type":"activity","object_id":${activityId},"aspect_type":"create","owner_id":${athleteId},"subscription_id":1,"event_time":1790000000}`;
    const answer = await fetch(`${service.url}/api/provider/webhook`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body,
    });
    await answer.arrayBuffer();
    if (answer.status !== 200) throw new Error(`The webhook was answered ${answer.status}`);
  };
  const count = async () =>
    (await listener.query<{ n: number }>('SELECT count(*)::int AS n FROM activity')).rows[0]?.n ?? 0;
  const untilStored = async (total: number) => {
    for (const startedAt = Date.now(); (await count()) < total; ) {
      if (Date.now() - startedAt > DEADLINE_MS)
        throw new Error(`Only ${await count()} of ${total} are stored after ${DEADLINE_MS} ms`);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  };

  // The database's own times: acceptance is the ledger row's, storage the activity's.
  for (let n = 0; n < IDLE; n += 1) {
    const athlete = athletes[n % ATHLETES];
    await post(athlete?.athleteId ?? '', athlete?.activityIds[0] ?? '');
    await untilStored(n + 1);
  }
  const { rows } = await listener.query<{ ms: number }>(
    `SELECT extract(epoch FROM a.fetched_at - e.received_at)::float8 * 1000 AS ms FROM activity a JOIN webhook_event e ON e.object_id = a.activity_id`,
  );
  const latencies = rows.map((row) => row.ms);

  simulator.settings.latencyMs = 50;
  const burstAt = performance.now();
  await Promise.all(
    athletes.slice(0, BURST).map(({ athleteId, activityIds }) => post(athleteId, activityIds[1] ?? '')),
  );
  await untilStored(IDLE + BURST);
  const burstMs = performance.now() - burstAt;

  simulator.settings.latencyMs = 0;
  await service.stop();
  service = await startService({ ...options, config: { ...config, SERVICE_ROLES: ['web'] } });
  const backlog = athletes.map((athlete) => ({ ...athlete, activityIds: athlete.activityIds.slice(2) }));
  const waiting = await requestAll(service.database, backlog, 'webhook');
  await service.stop();
  const drainAt = performance.now();
  service = await startService({ ...options, config: { ...config, SERVICE_ROLES: ['fetch'] } });
  let longestPauseMs = 0;
  let last = { n: await count(), at: performance.now() };
  while (last.n < IDLE + BURST + waiting) {
    await new Promise((resolve) => setTimeout(resolve, 20));
    const n = await count();
    const at = performance.now();
    if (n > last.n) {
      longestPauseMs = Math.max(longestPauseMs, at - last.at);
      last = { n, at };
    } else if (at - last.at > 60_000) throw new Error(`The drain stopped at ${n}`);
  }
  const drainMs = performance.now() - drainAt;
  await service.stop();
  await listener.end();

  printTable([
    ['', 'figure'],
    [
      `webhook accepted → stored, idle, provider 20 ms, ${IDLE} activities: p50`,
      `${percentile(latencies, 0.5).toFixed(0)} ms`,
    ],
    ['the same: p99', `${percentile(latencies, 0.99).toFixed(0)} ms`],
    [`${BURST} webhooks at once, provider 50 ms, concurrency 3: all stored`, `${burstMs.toFixed(0)} ms`],
    [
      `${waiting} jobs found at start: drained`,
      `${(drainMs / 1000).toFixed(1)} s (${((waiting / drainMs) * 1000).toFixed(0)}/s)`,
    ],
    ['longest pause between two stored activities', `${longestPauseMs.toFixed(0)} ms`],
  ]);
  const met = [
    printGoal('p50 under 60 ms', percentile(latencies, 0.5) < 60),
    printGoal('p99 under 250 ms', percentile(latencies, 0.99) < 250),
    printGoal('the burst within 2.5 s', burstMs < 2500),
    printGoal('the backlog drains without a pause of a second', longestPauseMs < 1000),
  ];
  process.exitCode = met.every(Boolean) ? 0 : 1;
} finally {
  await simulator.close();
  await postgres.stop();
}
