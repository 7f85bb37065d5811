import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import {
  type EmbeddedPostgres,
  removeEmbeddedPostgres,
  startEmbeddedPostgres,
} from '../../src/infra/embedded-postgres.ts';
import { createSilentLogger } from '../../src/infra/logger.ts';
import { migrate } from '../../src/infra/migrate.ts';
import { createSecretBox } from '../../src/infra/secret-box.ts';
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts';
import { ENCRYPTION_KEY, testEnvironment } from './service.ts';
import { freePort, type ServiceProcess, startServiceProcess } from './service-process.ts';
import { startTcpProxy } from './tcp-proxy.ts';

/** The fate of the events of a run full of crashes. */
export interface ChaosResult {
  /** Events that got their 200. */
  accepted: number;
  /** Accepted events whose activity is stored. */
  stored: number;
  /** Accepted events whose job is not done, with its state. */
  unfinished: string[];
  /** Activities with more than one job or more than one thumbnail row; always empty unless something is broken. */
  doubled: number;
  refusedTries: number;
  serviceKills: number;
  databaseKills: number;
  detailCalls: number;
  seconds: number;
}

const ATHLETES = 100;
const POSTERS = 24;

/**
 * Posts events while service and database are killed with SIGKILL, as the provider would: again until
 * answered 200. Then waits until no job is open.
 */
export async function runChaos(options: {
  events: number;
  serviceKills: number;
  databaseKills: number;
  say?: (line: string) => void;
}): Promise<ChaosResult> {
  const say = options.say ?? (() => undefined);
  const startedAt = Date.now();
  const dataDir = await mkdtemp(join(tmpdir(), 'activity-sync-chaos-'));
  const log = () => undefined;
  let postgres: EmbeddedPostgres = await startEmbeddedPostgres({ dataDir, log });
  const proxy = await startTcpProxy(postgres.port);
  const simulator = await startSimulator({ shortLimit: 1_000_000, dailyLimit: 100_000_000 });
  const databaseUrl = new URL(postgres.connectionString);
  databaseUrl.port = String(proxy.port);
  const port = await freePort();
  const env = testEnvironment(simulator.url, {
    DATABASE_URL: databaseUrl.href,
    PORT: String(port),
    PROVIDER_RATE_LIMIT_CAPACITY: '1000000',
    FETCH_STALE_AFTER_MS: '3000',
    FETCH_BACKOFF_BASE_MS: '200',
    LOG_LEVEL: 'error',
  });
  let service: ServiceProcess | undefined;
  try {
    await migrate({ connectionString: databaseUrl.href, logger: createSilentLogger() });
    const activities = await prepareWorld(simulator, databaseUrl.href, options.events);
    service = startServiceProcess(env);
    await service.ready();

    const accepted = new Set<string>();
    let refusedTries = 0;
    const queue = activities.slice();
    const post = async (): Promise<void> => {
      for (let next = queue.pop(); next; next = queue.pop()) {
        while (!(await postEvent(`http://127.0.0.1:${port}`, next))) {
          refusedTries += 1;
          await new Promise((resolve) => setTimeout(resolve, 25));
        }
        accepted.add(next.activityId);
      }
    };
    const posters = Promise.all(Array.from({ length: POSTERS }, post));

    const kills = [
      ...Array.from({ length: options.serviceKills }, (_, n) => ({
        at: (n + 0.5) / options.serviceKills,
        what: 'service',
      })),
      ...Array.from({ length: options.databaseKills }, (_, n) => ({
        at: (n + 0.8) / (options.databaseKills + 1),
        what: 'database',
      })),
    ].sort((a, b) => a.at - b.at);
    for (const { at, what } of kills) {
      while (accepted.size < at * options.events) await new Promise((resolve) => setTimeout(resolve, 5));
      say(`kill -9 of the ${what} after ${accepted.size} accepted events`);
      if (what === 'service') {
        await service.end('SIGKILL');
        service = startServiceProcess(env);
      } else {
        process.kill(postgres.pid, 'SIGKILL');
        await postgres.stop();
        postgres = await startEmbeddedPostgres({ dataDir, log });
        proxy.setTarget(postgres.port);
      }
    }
    await posters;
    say(`${accepted.size} events accepted; waiting until no job is open`);
    const outcome = await untilSettled(databaseUrl.href, [...accepted]);
    return {
      ...outcome,
      accepted: accepted.size,
      refusedTries,
      serviceKills: options.serviceKills,
      databaseKills: options.databaseKills,
      detailCalls: simulator.calls.filter((call) => /^\/api\/v3\/activities\//.test(call.path)).length,
      seconds: (Date.now() - startedAt) / 1000,
    };
  } finally {
    await service?.end('SIGKILL');
    await simulator.close();
    await proxy.close();
    await postgres.stop();
    await removeEmbeddedPostgres({ dataDir, log });
    await rm(dataDir, { recursive: true, force: true });
  }
}

interface Posted {
  activityId: string;
  athleteId: string;
}

async function prepareWorld(simulator: Simulator, url: string, events: number): Promise<Posted[]> {
  const secretBox = createSecretBox([ENCRYPTION_KEY]);
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(`INSERT INTO subscription (subscription_id, callback_url) VALUES (1, '')`);
  const athletes = Array.from({ length: ATHLETES }, () => simulator.addAthlete().id);
  for (const athleteId of athletes) {
    const tokens = simulator.grantTokens(athleteId);
    await client.query(
      `INSERT INTO athlete (athlete_id, access_token, refresh_token, token_expires_at, scope) VALUES ($1, $2, $3, to_timestamp($4), 'read,activity:read_all')`,
      [athleteId, secretBox.seal(tokens.accessToken), secretBox.seal(tokens.refreshToken), tokens.expiresAt],
    );
  }
  await client.end();
  return Array.from({ length: events }, (_, n) => {
    const athleteId = athletes[n % ATHLETES] as string;
    return { athleteId, activityId: simulator.addActivity(athleteId).id };
  });
}

async function postEvent(url: string, event: Posted): Promise<boolean> {
  const body = `{"object_type":"activity","object_id":${event.activityId},"aspect_type":"create","owner_id":${event.athleteId},"subscription_id":1,"event_time":1790000000,"updates":{}}`;
  try {
    const answer = await fetch(`${url}/api/provider/webhook`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body,
      signal: AbortSignal.timeout(5000),
    });
    await answer.arrayBuffer();
    return answer.status === 200;
  } catch (error) {
    // No answer. By name: under Jest the error comes from another realm.
    if (['TypeError', 'TimeoutError'].includes((error as Error).name)) return false;
    throw error;
  }
}

async function untilSettled(
  url: string,
  accepted: string[],
): Promise<Pick<ChaosResult, 'stored' | 'unfinished' | 'doubled'>> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    const deadline = Date.now() + 60_000;
    for (;;) {
      const { rows } = await client.query<{ n: number }>(
        'SELECT count(*)::int AS n FROM activity_fetch_job WHERE outcome IS NULL',
      );
      if (rows[0]?.n === 0 || Date.now() > deadline) break;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    const stored = await client.query<{ n: number }>(
      'SELECT count(*)::int AS n FROM activity WHERE activity_id = ANY ($1::bigint[])',
      [accepted],
    );
    const unfinished = await client.query<{ line: string }>(
      `SELECT a.id || ': ' || coalesce(v.status || ' ' || coalesce(v.error, ''), 'no job') AS line
       FROM unnest($1::bigint[]) AS a (id) LEFT JOIN "ActivityFetchJob" v ON v."activityId" = a.id
       WHERE v.status IS DISTINCT FROM 'done' LIMIT 20`,
      [accepted],
    );
    const doubled = await client.query<{ n: number }>(
      `SELECT (SELECT count(*) FROM (SELECT singleton_key FROM pgboss.job WHERE name = 'activity-fetch' GROUP BY 1 HAVING count(*) > 1) d)::int AS n`,
    );
    return {
      stored: stored.rows[0]?.n ?? 0,
      unfinished: unfinished.rows.map((row) => row.line),
      doubled: doubled.rows[0]?.n ?? 0,
    };
  } finally {
    await client.end();
  }
}
