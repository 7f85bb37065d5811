import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { createSecretBox } from '../../src/infra/secret-box.ts';
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts';
import { type Receiver, startReceiver } from './receiver.ts';
import { ADMIN_TOKEN, ENCRYPTION_KEY, KNOWN_SUBSCRIPTIONS, testEnvironment } from './service.ts';
import { freePort, MACHINE_ENVIRONMENT, type ServiceProcess, startServiceProcess } from './service-process.ts';

/** What an application had after a run full of crashes. */
export interface ApplicationChaosResult {
  changes: number;
  /** Positions that the feed lacks; and activities whose changes in it do not begin with their creation. */
  gaps: number;
  invented: number;
  /** Rows in which the example's table and the provider differ. */
  differences: number;
  /** Changes that an always-answering endpoint never received. */
  undelivered: number;
  /** First deliveries to it that came before the one of an earlier change of the same athlete. */
  outOfOrder: number;
  /** Changes that it received more than once, which is allowed. */
  repeated: number;
  seconds: number;
}

const ATHLETES = 50;
const POSTERS = 12;
const SETTLED_MS = 600_000;
const EXAMPLE = fileURLToPath(new URL('../../examples/app/app.ts', import.meta.url));

/**
 * Lets activities be created, renamed and deleted at the provider while the service and the example application are
 * killed with SIGKILL; then compares the application's table with the provider.
 * @param options.databaseUrl of a migrated database that is empty
 */
export async function runApplicationChaos(options: {
  databaseUrl: string;
  activities: number;
  serviceKills: number;
  applicationKills: number;
  say?: (line: string) => void;
}): Promise<ApplicationChaosResult> {
  const say = options.say ?? (() => undefined);
  const startedAt = performance.now();
  const folder = await mkdtemp(join(tmpdir(), 'activity-sync-application-chaos-'));
  const simulator = await startSimulator({ shortLimit: 10_000_000, dailyLimit: 100_000_000 });
  const receiver = await startReceiver();
  const [port, appPort] = [await freePort(), await freePort()];
  const env = testEnvironment(simulator.url, {
    DATABASE_URL: options.databaseUrl,
    PORT: String(port),
    SERVICE_ROLES: 'web,fetch,delivery',
    PROVIDER_RATE_LIMIT_CAPACITY: '10000000',
    FETCH_STALE_AFTER_MS: '3000',
    FETCH_BACKOFF_BASE_MS: '200',
    OUTBOUND_ALLOW_PRIVATE: 'true',
    API_RATE_LIMIT: '1000000',
    LOG_LEVEL: 'error',
  });
  const client = new pg.Client({ connectionString: options.databaseUrl });
  await client.connect();
  let service: ServiceProcess = startServiceProcess(env);
  let app: ChildProcess | undefined;
  try {
    await service.ready();
    await client.query(`INSERT INTO subscription (subscription_id, callback_url) SELECT unnest($1::bigint[]), ''`, [
      KNOWN_SUBSCRIPTIONS,
    ]);
    const athletes = await connectAthletes(simulator, client);
    const token = await createToken(service.url);
    await createEndpoint(service.url, token, receiver);
    const startApp = () =>
      spawn(process.execPath, [EXAMPLE], {
        env: {
          ...MACHINE_ENVIRONMENT,
          ACTIVITY_SYNC_URL: service.url,
          ACTIVITY_SYNC_TOKEN: token,
          PORT: String(appPort),
          FILE: join(folder, 'app.db'),
        },
        stdio: 'ignore',
      });
    app = startApp();
    await untilAnswered(`http://127.0.0.1:${appPort}/`);

    const truth = new Map<string, string>();
    let done = 0;
    const todo = Array.from({ length: options.activities }, (_, n) => n);
    const post = async () => {
      for (let n = todo.pop(); n !== undefined; n = todo.pop()) {
        await live(simulator, truth, `${service.url}/api/provider/webhook`, athletes[n % ATHLETES] as string, n);
        done += 1;
      }
    };
    const posters = Promise.all(Array.from({ length: POSTERS }, post));
    const kills = [
      ...Array.from({ length: options.serviceKills }, (_, n) => ({
        at: (n + 0.5) / options.serviceKills,
        what: 'service',
      })),
      ...Array.from({ length: options.applicationKills }, (_, n) => ({
        at: (n + 0.7) / options.applicationKills,
        what: 'application',
      })),
    ].sort((a, b) => a.at - b.at);
    for (const { at, what } of kills) {
      while (done < at * options.activities) await pause(5);
      say(`kill -9 of the ${what} after ${done} activities`);
      if (what === 'service') {
        await service.end('SIGKILL');
        service = startServiceProcess(env);
        await service.ready();
      } else {
        const gone = once(app, 'exit');
        app.kill('SIGKILL');
        await gone;
        app = startApp();
      }
    }
    await posters;
    say(`${done} activities came; waiting until nothing is open`);
    const file = join(folder, 'app.db');
    await untilSettled(client, file);
    return {
      ...(await judge(client, receiver)),
      differences: countDifferences(file, truth),
      seconds: Math.round((performance.now() - startedAt) / 1000),
    };
  } finally {
    app?.kill('SIGKILL');
    await service.end('SIGKILL');
    await client.end();
    await receiver.close();
    await simulator.close();
    await rm(folder, { recursive: true, force: true });
  }
}

async function connectAthletes(simulator: Simulator, client: pg.Client): Promise<string[]> {
  const secretBox = createSecretBox([ENCRYPTION_KEY]);
  const athletes = Array.from({ length: ATHLETES }, () => simulator.addAthlete().id);
  for (const athleteId of athletes) {
    const tokens = simulator.grantTokens(athleteId);
    await client.query(
      `INSERT INTO athlete (athlete_id, access_token, refresh_token, token_expires_at, scope) VALUES ($1, $2, $3, to_timestamp($4), 'read,activity:read_all')`,
      [athleteId, secretBox.seal(tokens.accessToken), secretBox.seal(tokens.refreshToken), tokens.expiresAt],
    );
  }
  return athletes;
}

async function post(url: string, token: string, body: object): Promise<Record<string, string>> {
  const answer = await fetch(url, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  if (answer.status !== 201) throw new Error(`${url} answered ${answer.status}: ${await answer.text()}`);
  return (await answer.json()) as Record<string, string>;
}

async function createToken(serviceUrl: string): Promise<string> {
  const body = await post(`${serviceUrl}/api/admin/api-tokens`, ADMIN_TOKEN, { name: 'chaos', scope: 'write' });
  return body.token as string;
}

async function createEndpoint(serviceUrl: string, token: string, receiver: Receiver): Promise<void> {
  await post(`${serviceUrl}/api/v1/endpoints`, token, { url: `${receiver.url}/hook` });
}

async function untilAnswered(url: string): Promise<void> {
  for (;;) {
    const answer = await fetch(url).catch(() => undefined);
    await answer?.arrayBuffer();
    if (answer?.ok) return;
    await pause(20);
  }
}

/** One activity's life: created, then left, renamed or deleted. Each event is sent until it is accepted, as by the provider. */
async function live(
  simulator: Simulator,
  truth: Map<string, string>,
  url: string,
  athleteId: string,
  n: number,
): Promise<void> {
  const tell = async (id: string, aspect_type: 'create' | 'update' | 'delete') => {
    const event = { object_id: id, owner_id: athleteId, aspect_type };
    while ((await simulator.deliver(event, { url })).status !== 200) await pause(25);
  };
  const { id } = simulator.addActivity(athleteId, { name: `Activity ${n}` });
  truth.set(id, `Activity ${n}`);
  await tell(id, 'create');
  // What follows is a change of its own, and not part of the creation.
  await simulator.waitForArrival((call) => call.activityId === id, SETTLED_MS);
  if (n % 3 === 1) {
    simulator.updateActivity(id, { name: `Renamed ${n}` });
    truth.set(id, `Renamed ${n}`);
    await tell(id, 'update');
  } else if (n % 3 === 2) {
    simulator.deleteActivity(id);
    truth.delete(id);
    await tell(id, 'delete');
  }
}

/** Waits until every job is done, the endpoint that always answers has everything, and the application the whole feed. */
async function untilSettled(client: pg.Client, file: string): Promise<void> {
  const readOpen = async () => {
    const { rows } = await client.query<{ open: number; position: string }>(
      `SELECT ((SELECT count(*) FROM activity_fetch_job WHERE outcome IS NULL)
         + (SELECT count(*) FROM delivery WHERE state = 'waiting' AND endpoint_id = 1))::int AS open,
         (SELECT position FROM change_feed) AS position`,
    );
    return rows[0] as { open: number; position: string };
  };
  for (const deadline = performance.now() + SETTLED_MS; ; await pause(100)) {
    const { open, position } = await readOpen();
    const cursor = readTable(file, "SELECT value FROM setting WHERE name = 'cursor'")[0]?.value;
    if (open === 0 && cursor === position) return;
    if (performance.now() > deadline)
      throw new Error(`${open} jobs and deliveries are open; the application is at ${cursor} of ${position}`);
  }
}

function readTable(file: string, query: string): Record<string, unknown>[] {
  const db = new DatabaseSync(file, { readOnly: true, timeout: 5000 });
  try {
    return db.prepare(query).all();
  } finally {
    db.close();
  }
}

function countDifferences(file: string, truth: ReadonlyMap<string, string>): number {
  const rows = readTable(file, 'SELECT id, name FROM activity');
  const wrong = rows.filter(({ id, name }) => truth.get(String(id)) !== name).length;
  const has = new Set(rows.map(({ id }) => String(id)));
  return wrong + [...truth.keys()].filter((id) => !has.has(id)).length;
}

interface RecordedChange {
  id: string;
  position: string;
  type: string;
  athlete_id: string | null;
  activity_id: string | null;
}

async function judge(
  client: pg.Client,
  { calls }: Receiver,
): Promise<Omit<ApplicationChaosResult, 'differences' | 'seconds'>> {
  const { rows: changes } = await client.query<RecordedChange>(
    'SELECT id, position, type, athlete_id, activity_id FROM change ORDER BY position',
  );
  const gaps = changes.filter(({ position }, n) => Number(position) !== n + 1).length;
  const lives = new Map<string, string[]>();
  for (const { activity_id, type } of changes)
    if (activity_id !== null) lives.set(activity_id, [...(lives.get(activity_id) ?? []), type]);
  const isWrong = (types: string[]) =>
    types[0] !== 'activity.created' ||
    types.lastIndexOf('activity.created') > 0 ||
    (types.includes('activity.deleted') && types.indexOf('activity.deleted') < types.length - 1);

  const told = new Set<string>();
  const newest = new Map<string, number>();
  let outOfOrder = 0;
  for (const { headers, body } of calls) {
    const id = String(headers['webhook-id']);
    if (told.has(id)) continue;
    told.add(id);
    const { athleteId, cursor } = body.data;
    if (Number(cursor) < (newest.get(athleteId) ?? 0)) outOfOrder += 1;
    newest.set(athleteId, Number(cursor));
  }
  return {
    changes: changes.length,
    gaps,
    invented: [...lives.values()].filter(isWrong).length,
    undelivered: changes.filter(({ id }) => !told.has(id)).length,
    outOfOrder,
    repeated: calls.length - told.size,
  };
}
