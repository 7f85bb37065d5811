/*
 * True deliveries beside hostile load: bad tokens, unknown subscriptions, half-sent bodies, 500 event streams, against a
 * service process with a simulated provider. Every true delivery is stored, its answer is in time, memory stays flat.
 * Run: node bench/hostile.ts [seconds, 600 unless given]
 */
import { readFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { openDatabase } from '../src/infra/database.ts';
import { openRawConnections } from '../test/support/raw-connections.ts';
import { freePort, startServiceProcess } from '../test/support/service-process.ts';
import { percentile, printGoal, printTable } from './support/figures.ts';
import { startBenchPostgres } from './support/postgres.ts';
import { connectAthletes } from './support/seed-jobs.ts';
import { serviceEnvironment } from './support/service-environment.ts';
import { startSimulatorProcess } from './support/simulator-process.ts';

const SECONDS = Number(process.argv[2] ?? 600);
const DELIVERIES_PER_S = 20;
const ATHLETES = 100;
const STREAMS = 500;
const HALF_BODIES = 400;
const REDELIVERY_MS = 100;
const STORED_WITHIN_MS = 60_000;
const WEBHOOK_PATH = '/api/provider/webhook';
const KNOWN_SUBSCRIPTION = 1;

const postgres = await startBenchPostgres();
const simulator = await startSimulatorProcess();
const databaseUrl = await postgres.createDatabase();
const database = openDatabase({
  connectionString: databaseUrl,
  maxConnections: 2,
  applicationName: 'bench',
  onError: (error) => process.stderr.write(`${error.message}\n`),
});
const port = await freePort();
const env = serviceEnvironment(databaseUrl, port, {
  SERVICE_ROLES: 'web,fetch',
  PROVIDER_API_URL: simulator.url,
  PROVIDER_RATE_LIMIT_CAPACITY: '100000000',
  PROVIDER_ATHLETE_COOLDOWN: '0',
});
const HALF_BODY = `POST ${WEBHOOK_PATH} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 65536\r\n\r\n${' '.repeat(32_768)}`;
const STREAM = `GET /api/admin/events HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${env.ADMIN_TOKEN}\r\n\r\n`;

await database.query('INSERT INTO subscription (subscription_id, callback_url) VALUES ($1, $2)', [
  KNOWN_SUBSCRIPTION,
  `http://127.0.0.1:${port}${WEBHOOK_PATH}`,
]);
const service = startServiceProcess(env, { quiet: true });
const half = openRawConnections(port);
const streams = openRawConnections(port);
try {
  await service.ready();
  const total = SECONDS * DELIVERIES_PER_S;
  const athletes = await simulator.addAthletes(
    Array.from({ length: ATHLETES }, (_, n) => Math.ceil((total - n) / ATHLETES)),
  );
  await connectAthletes(database, athletes);
  const endAt = performance.now() + SECONDS * 1000;
  const rssMiB: number[] = [];
  const answers = new Map<string, number>();
  const acks: number[] = [];
  await Promise.all([
    deliverTrue(athletes, total, acks, answers),
    repeat(endAt, 10, () =>
      count(answers, 'bad token', '/api/admin/activity-jobs', { headers: { authorization: 'Bearer wrong' } }),
    ),
    repeat(endAt, 10, () => count(answers, 'unknown subscription', WEBHOOK_PATH, eventOf('1', '1', 999))),
    repeat(endAt, 10, async () => {
      if (half.alive < HALF_BODIES) await half.open(HALF_BODY);
    }),
    repeat(endAt, 10, async () => {
      if (streams.alive < STREAMS) await streams.open(STREAM);
    }),
    repeat(endAt, 1000, async () => {
      rssMiB.push(readRssMiB());
    }),
  ]);
  const missing = await untilStored(total);
  const quarter = Math.floor(rssMiB.length / 4);
  const early = percentile(rssMiB.slice(quarter, 2 * quarter), 0.5);
  const late = percentile(rssMiB.slice(3 * quarter), 0.5);
  printTable([
    ['', 'figure'],
    ['true deliveries', total],
    ['not stored', missing],
    ['answer p50 / p99 ms', `${percentile(acks, 0.5).toFixed(1)} / ${percentile(acks, 0.99).toFixed(1)}`],
    ['RSS of the second / last quarter, MiB', `${early.toFixed(0)} / ${late.toFixed(0)}`],
    ...[...answers].sort().map(([what, n]): [string, number] => [what, n]),
  ]);
  printGoal('every true delivery is stored', missing === 0);
  printGoal('99 of 100 true deliveries are answered within 150 ms', percentile(acks, 0.99) < 150);
  printGoal('RSS of the last quarter is at most a tenth above the second', late <= early * 1.1);
} finally {
  half.close();
  streams.close();
  await service.end('SIGTERM');
  await database.close();
  await simulator.stop();
  await postgres.stop();
}

/** Repeats something with a pause in between, until the time is up. */
async function repeat(endAt: number, everyMs: number, work: () => Promise<void>): Promise<void> {
  while (performance.now() < endAt) {
    await work();
    await pause(everyMs);
  }
}

function eventOf(activityId: string, athleteId: string, subscriptionId: number): RequestInit {
  const ids = `"object_id":${activityId},"owner_id":${athleteId},"subscription_id":${subscriptionId}`;
  const body = `{"object_type":"activity","aspect_type":"create",${ids},"event_time":${Math.floor(Date.now() / 1000)},"updates":{}}`;
  return { method: 'POST', headers: { 'content-type': 'application/json' }, body };
}

/** Counts the answer to a hostile request by its status. */
async function count(answers: Map<string, number>, what: string, path: string, init: RequestInit): Promise<void> {
  const answer = await fetch(`${service.url}${path}`, init);
  await answer.arrayBuffer();
  const key = `${what}: ${answer.status}`;
  answers.set(key, (answers.get(key) ?? 0) + 1);
}

/** Delivers each activity once, evenly spread, and records how long each answer took in milliseconds. */
async function deliverTrue(
  athletes: readonly { athleteId: string; activityIds: string[] }[],
  total: number,
  acks: number[],
  answers: Map<string, number>,
): Promise<void> {
  const startedAt = performance.now();
  const deliver = async (n: number): Promise<void> => {
    const { athleteId, activityIds } = athletes[n % athletes.length] as (typeof athletes)[number];
    const sentAt = performance.now();
    const activityId = activityIds[Math.floor(n / athletes.length)] as string;
    // Like the provider, repeats until it is answered 200: refused attempts count, and are part of the time.
    for (;;) {
      const answer = await fetch(`${service.url}${WEBHOOK_PATH}`, eventOf(activityId, athleteId, KNOWN_SUBSCRIPTION));
      await answer.arrayBuffer();
      if (answer.status === 200) break;
      const refused = `true delivery refused at first: ${answer.status}`;
      answers.set(refused, (answers.get(refused) ?? 0) + 1);
      await pause(REDELIVERY_MS);
    }
    acks.push(performance.now() - sentAt);
  };
  const sent: Promise<void>[] = [];
  for (let n = 0; n < total; n += 1) {
    await pause(Math.max(0, startedAt + (n * 1000) / DELIVERIES_PER_S - performance.now()));
    sent.push(deliver(n));
  }
  await Promise.all(sent);
}

/** Waits until so many activities are stored. @returns how many are missing after a minute */
async function untilStored(total: number): Promise<number> {
  const deadline = performance.now() + STORED_WITHIN_MS;
  for (;;) {
    const [row] = await database.query<{ n: number }>('SELECT count(*)::int AS n FROM activity');
    const missing = total - (row?.n ?? 0);
    if (missing === 0 || performance.now() > deadline) return missing;
    await pause(100);
  }
}

function readRssMiB(): number {
  const status = readFileSync(`/proc/${service.child.pid}/status`, 'latin1');
  return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) / 1024;
}
