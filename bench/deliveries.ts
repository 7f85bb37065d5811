import { randomBytes } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { type Service, startService } from '../src/compose.ts';
import { readConfig } from '../src/infra/config.ts';
import { createSilentLogger } from '../src/infra/logger.ts';
import { createSecretBox } from '../src/infra/secret-box.ts';
import { startSimulator } from '../src/simulator/simulator.ts';
import { recordChanges } from '../src/store/changes.ts';
import { saveEndpoint } from '../src/store/endpoints.ts';
import { type Receiver, startReceiver } from '../test/support/receiver.ts';
import { percentile, printGoal, printTable } from './support/figures.ts';
import { startBenchPostgres } from './support/postgres.ts';
import { connectAthletes, ENCRYPTION_KEY } from './support/seed-jobs.ts';
import { serviceEnvironment } from './support/service-environment.ts';

// How soon the application is notified: from the provider's webhook to the call of its endpoint, and from a change to each
// of a thousand endpoints of which every tenth never answers.
const IDLE = 200;
const ENDPOINTS = 1000;
const HANGS_EACH = 10;
const ROUNDS = 5;
const ROUND_MS = 10_000;
const DEADLINE_MS = 60_000;

const postgres = await startBenchPostgres();
const simulator = await startSimulator({ latencyMs: 20, shortLimit: 10_000_000, dailyLimit: 1_000_000_000 });
const receiver = await startReceiver();
let service: Service | undefined;
try {
  const url = await postgres.createDatabase();
  const config = readConfig(
    serviceEnvironment(url, 0, {
      PROVIDER_API_URL: simulator.url,
      PROVIDER_ATHLETE_COOLDOWN: '0',
      PROVIDER_RATE_LIMIT_CAPACITY: '10000000',
      PROVIDER_AUTO_SYNC_ENABLED: 'false',
      OUTBOUND_ALLOW_PRIVATE: 'true',
    }),
  );
  const logger = createSilentLogger();
  service = await startService({ config, connectionString: url, encryptionKeys: [ENCRYPTION_KEY], logger });
  const whole = await measureWholeWay(service, receiver);
  const spread = await measureManyEndpoints(service, receiver);

  const inMs = (values: number[], share: number) => `${percentile(values, share).toFixed(0)} ms`;
  printTable([
    ['', 'p50', 'p99'],
    [
      `provider's webhook → endpoint called, idle, provider 20 ms, ${IDLE} activities`,
      inMs(whole, 0.5),
      inMs(whole, 0.99),
    ],
    [
      `change → ${ENDPOINTS} endpoints, every tenth hangs: the others, at first`,
      inMs(spread.first, 0.5),
      inMs(spread.first, 0.99),
    ],
    ['the same, in the rounds after', inMs(spread.later, 0.5), inMs(spread.later, 0.99)],
  ]);
  const met = [
    printGoal('webhook → endpoint: p50 under 100 ms', percentile(whole, 0.5) < 100),
    printGoal('beside endpoints that hang: p99 under 1 s', percentile([...spread.first, ...spread.later], 0.99) < 1000),
  ];
  process.exitCode = met.every(Boolean) ? 0 : 1;
} finally {
  await service?.stop(100);
  await receiver.close();
  await simulator.close();
  await postgres.stop();
}

/** @returns milliseconds for each activity */
async function measureWholeWay(target: Service, { calls, url }: Receiver): Promise<number[]> {
  const { database } = target;
  const athletes = Array.from({ length: IDLE }, () => {
    const athleteId = simulator.addAthlete().id;
    return { athleteId, activityIds: [simulator.addActivity(athleteId).id], ...simulator.grantTokens(athleteId) };
  });
  await connectAthletes(database, athletes);
  await saveEndpoint(database, settingsOf(`${url}/whole`, null, ['activity.created']), 1);
  const took: number[] = [];
  for (const [n, { athleteId, activityIds }] of athletes.entries()) {
    const body = `{"object_type":"activity","object_id":${activityIds[0]},"aspect_type":"create","owner_id":${athleteId},"subscription_id":1,"event_time":1790000000}`;
    const sentAt = performance.now();
    const answer = await fetch(`${target.url}/api/provider/webhook`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body,
    });
    await answer.arrayBuffer();
    await untilTrue(() => calls.length > n, 'the call of the endpoint');
    took.push(performance.now() - sentAt);
    await pause(20); // so that each finds the system idle
  }
  await database.query('DELETE FROM endpoint');
  return took;
}

/** @returns milliseconds for each call of an endpoint that answers: of the first round, and of those after */
async function measureManyEndpoints(target: Service, to: Receiver): Promise<{ first: number[]; later: number[] }> {
  const { database } = target;
  const athletes = Array.from({ length: ENDPOINTS }, (_, n) => String(9_000_000 + n));
  for (const athleteId of athletes)
    await saveEndpoint(database, settingsOf(`${to.url}/${athleteId}`, [athleteId], null), ENDPOINTS);
  const hangs = (athleteId: string) => Number(athleteId) % HANGS_EACH === 0;
  const changedAt = new Map<string, number>();
  let took: number[] = [];
  to.answer = ({ body }) => {
    const { athleteId } = body.data;
    if (hangs(athleteId)) return undefined;
    took.push(performance.now() - (changedAt.get(athleteId) ?? 0));
    return { status: 200 };
  };
  const answering = athletes.filter((athleteId) => !hangs(athleteId)).length;
  const rounds: number[][] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    took = [];
    for (const [n, athleteId] of athletes.entries()) {
      changedAt.set(athleteId, performance.now());
      await database.transaction((tx) => recordChanges(tx, [{ type: 'activity.updated', athleteId, activityId: '1' }]));
      if (n % 10 === 9) await pause((ROUND_MS / ENDPOINTS) * 10 - 5);
    }
    await untilTrue(() => took.length >= answering, `${answering} calls`);
    rounds.push(took);
  }
  const [first = [], ...later] = rounds;
  return { first, later: later.flat() };
}

function settingsOf(url: string, athleteIds: string[] | null, types: ['activity.created'] | null) {
  const secret = `whsec_${randomBytes(32).toString('base64')}`;
  return { url, types, athleteIds, description: '', sealedSecret: createSecretBox([ENCRYPTION_KEY]).seal(secret) };
}

async function untilTrue(fits: () => boolean, what: string): Promise<void> {
  for (const startedAt = performance.now(); !fits(); await pause(1))
    if (performance.now() - startedAt > DEADLINE_MS) throw new Error(`There was not ${what} within ${DEADLINE_MS} ms`);
}
