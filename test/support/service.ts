import type { TestClock } from 'pg-boss';
import { type Service, type ServiceOptions, startService } from '../../src/compose.ts';
import type { Clock } from '../../src/domain/clock.ts';
import { readConfig } from '../../src/infra/config.ts';
import { createLogger, createSilentLogger, type Logger } from '../../src/infra/logger.ts';
import type { SimulatorOptions } from '../../src/simulator/settings.ts';
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts';
import { createTestDatabase, type TestDatabase } from './database.ts';
import { startTcpProxy, type TcpProxy } from './tcp-proxy.ts';

export const ADMIN_TOKEN = 'admin-token-of-the-tests';
export const READ_TOKEN = 'read-token-of-the-tests!';
export const VERIFY_TOKEN = 'verify-token-of-the-tests';
export const ENCRYPTION_KEY = '0f'.repeat(32);

// The simulator's first one, and those that the events of tests name.
export const KNOWN_SUBSCRIPTIONS = [120475, 1, 7];

/** A service, its provider and its database, all real and all of one test's own. */
export interface Rig {
  service: Service;
  simulator: Simulator;
  database: TestDatabase;
  /** A proxy between the service and its database; for rigs that were started with `proxied`. */
  proxy: Omit<TcpProxy, 'port' | 'setTarget' | 'dropNotifications' | 'connections' | 'opened' | 'close'>;
  /** Starts one more process of the service on the same database (in this Node process). */
  startReplica(env?: Record<string, string>, clock?: Clock, more?: Partial<ServiceOptions>): Promise<Service>;
  /** Connects or reconnects an athlete: known to the provider, tokens stored. */
  connectAthlete(name?: string, id?: string): Promise<string>;
  /** Posts a webhook body. */
  post(body: unknown, headers?: Record<string, string>): Promise<Response>;
  /** Calls the admin interface. */
  admin(path: string, init?: RequestInit): Promise<Response>;
  /** Resolves when the view shows what `fits` asks for; notifications and settled runs are the signal. */
  untilJob(activityId: string, fits: (job: JobRow) => boolean, timeoutMs?: number): Promise<JobRow>;
  close(): Promise<void>;
}

export interface JobRow {
  id: string;
  activityId: string;
  athleteId: string;
  reason: string;
  force: boolean;
  status: 'pending' | 'working' | 'done' | 'failed';
  attempts: number;
  maxAttempts: number;
  nextRunAt: Date;
  error: string | null;
  createdAt: Date;
  updatedAt: Date;
  outcome: string | null;
}

/** Environment of a service under test; time scales are short, everything else is the default. */
export function testEnvironment(simulatorUrl: string, overrides: Record<string, string> = {}): Record<string, string> {
  return {
    PROVIDER_CLIENT_ID: 'simulator-client',
    PROVIDER_CLIENT_SECRET: 'simulator-secret',
    PROVIDER_VERIFY_TOKEN: VERIFY_TOKEN,
    PROVIDER_API_URL: simulatorUrl,
    NEXT_PUBLIC_BASE_URL: 'http://127.0.0.1:1', // set by tests that need the callback
    PORT: '0',
    ADMIN_TOKEN,
    ADMIN_READ_TOKEN: READ_TOKEN,
    TOKEN_ENCRYPTION_KEY: ENCRYPTION_KEY,
    PROVIDER_ATHLETE_COOLDOWN: '0',
    PROVIDER_AUTO_SYNC_ENABLED: 'false',
    ...overrides,
  };
}

/**
 * Starts service, provider and database.
 * @param options.env overrides of the configuration
 * @param options.subscriptions which the service knows; those of the simulator and of the events that tests post unless told
 * @param options.proxied true puts a proxy between service and database, which a test can cut and hold
 * @param options.logs true shows the service's log (for working on a test)
 */
export async function startRig(
  options: {
    env?: Record<string, string>;
    simulator?: SimulatorOptions;
    clock?: TestClock;
    logs?: boolean;
    logger?: Logger;
    proxied?: boolean;
    subscriptions?: readonly number[];
  } = {},
): Promise<Rig> {
  const simulator = await startSimulator({ shortLimit: 1_000_000, dailyLimit: 100_000_000, ...options.simulator });
  const database = await createTestDatabase();
  const connection = new URL(database.url);
  const proxy = options.proxied ? await startTcpProxy(Number(connection.port)) : undefined;
  if (proxy) connection.port = String(proxy.port);
  const logger =
    options.logger ?? (options.logs ? createLogger({ level: 'debug', pretty: true }) : createSilentLogger());
  const services: Service[] = [];
  const startReplica = async (
    env: Record<string, string> = {},
    clock: Clock | undefined = options.clock,
    more: Partial<ServiceOptions> = {},
  ): Promise<Service> => {
    const config = readConfig(
      testEnvironment(simulator.url, { PROVIDER_RATE_LIMIT_CAPACITY: '1000000', ...options.env, ...env }),
    );
    const service = await startService({
      config,
      connectionString: connection.href,
      encryptionKeys: config.TOKEN_ENCRYPTION_KEY?.split(',') ?? [],
      logger,
      ...(clock ? { clock } : {}),
      ...more,
    });
    services.push(service);
    return service;
  };
  const service = await startReplica();
  await service.database.query(
    `INSERT INTO subscription (subscription_id, callback_url) SELECT unnest($1::bigint[]), ''`,
    [options.subscriptions ?? KNOWN_SUBSCRIPTIONS],
  );

  const untilJob: Rig['untilJob'] = async (activityId, fits, timeoutMs = 10_000) => {
    const look = async (): Promise<JobRow | undefined> =>
      (
        await service.database.query<JobRow>(
          'SELECT v.*, r.outcome FROM "ActivityFetchJob" v JOIN activity_fetch_job r USING (id) WHERE v."activityId" = $1',
          [activityId],
        )
      )[0];
    const deadline = Date.now() + timeoutMs;
    for (;;) {
      const job = await look();
      if (job && fits(job)) return job;
      if (Date.now() > deadline)
        throw new Error(`The job of activity ${activityId} did not get there; it is ${JSON.stringify(job)}`);
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  };

  return {
    service,
    simulator,
    database,
    proxy: proxy ?? NO_PROXY,
    startReplica,
    untilJob,
    connectAthlete: async (name = 'Test Athlete', id) => {
      const known = simulator.athletes.find((one) => one.id === id);
      const athlete = known ?? simulator.addAthlete({ name, ...(id === undefined ? {} : { id }) });
      const begun = await fetch(`${service.url}/api/provider/connect`, { redirect: 'manual' });
      const cookie = cookieOf(begun);
      const consent = new URL(begun.headers.get('location') ?? '');
      consent.searchParams.set('auto', '1');
      consent.searchParams.set('athlete', athlete.id);
      const granted = await fetch(consent, { redirect: 'manual' });
      const back = new URL(granted.headers.get('location') ?? '');
      const connected = await fetch(`${service.url}${back.pathname}${back.search}`, { headers: { cookie } });
      await connected.arrayBuffer();
      if (!connected.ok) throw new Error(`Connecting failed: ${connected.status}`);
      return athlete.id;
    },
    post: (body, headers = {}) =>
      fetch(`${service.url}/api/provider/webhook`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body: typeof body === 'string' ? body : JSON.stringify(body),
      }),
    admin: (path, init = {}) =>
      fetch(`${service.url}${path}`, {
        ...init,
        headers: {
          authorization: `Bearer ${ADMIN_TOKEN}`,
          ...(init.body ? { 'content-type': 'application/json' } : {}),
          ...init.headers,
        },
      }),
    close: async () => {
      await Promise.all(services.map((one) => one.stop(1000)));
      await simulator.close();
      await proxy?.close();
      await database.drop();
    },
  };
}

/** The cookie that an answer sets, as a browser sends it back. */
export const cookieOf = (response: Response): string => response.headers.get('set-cookie')?.split(';')[0] ?? '';

const refuse = (): never => {
  throw new Error('This rig has no proxy; start it with { proxied: true }.');
};
const NO_PROXY = { cut: refuse, restore: refuse, hold: refuse, holdAnswers: refuse, holdFrom: refuse, release: refuse };
