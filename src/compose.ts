import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Router } from 'express';
import type { PgBoss } from 'pg-boss';
import { type Clock, systemClock } from './domain/clock.ts';
import { createAcceptWebhook } from './flows/accept-webhook.ts';
import { createAccessTokens } from './flows/access-token.ts';
import { createConnectAthlete } from './flows/connect-athlete.ts';
import { createDisconnectAthlete } from './flows/disconnect-athlete.ts';
import { createEraseAthlete } from './flows/erase-athlete.ts';
import { createKnownSubscriptions } from './flows/known-subscriptions.ts';
import { createListPage } from './flows/list-page.ts';
import { createSubscriptions } from './flows/manage-subscriptions.ts';
import { createStoreRun } from './flows/store-run.ts';
import { createSyncs } from './flows/sync-progress.ts';
import { type AdminApi, createAdminApi } from './http/admin-api.ts';
import { createAdminAuth } from './http/admin-auth.ts';
import { createApp } from './http/app.ts';
import type { Route } from './http/route.ts';
import { adminSyncRoutes } from './http/routes/admin-syncs.ts';
import { adminWebhookRoutes } from './http/routes/admin-webhooks.ts';
import { createHealthRouter } from './http/routes/health.ts';
import { createOauthRouter } from './http/routes/oauth.ts';
import { createPagesRouter } from './http/routes/pages.ts';
import { createWebhookRouter, WEBHOOK_PATH } from './http/routes/webhook.ts';
import { limitSignIn } from './http/sign-in-limit.ts';
import { createBoss } from './infra/boss.ts';
import type { Config } from './infra/config.ts';
import { type Database, openDatabase } from './infra/database.ts';
import type { Logger } from './infra/logger.ts';
import { createMetrics, type Metrics } from './infra/metrics.ts';
import { NotifyHub } from './infra/notify-hub.ts';
import { createPacedRead } from './infra/paced-read.ts';
import { createSecretBox } from './infra/secret-box.ts';
import { createProvider, type Provider } from './provider/client.ts';
import { createTransport } from './provider/transport.ts';
import { type Budget, budgetMargins, createBudget } from './queue/budget.ts';
import { createClaimRun } from './queue/claim.ts';
import { countWaits } from './store/job-waits.ts';
import { createTileSource } from './thumbnail/tile-source.ts';
import { FetchWorker } from './workers/fetch-worker.ts';
import { MetricsCollector } from './workers/metrics-collector.ts';
import { PollingWorker } from './workers/polling-worker.ts';
import { Retention } from './workers/retention.ts';
import { SyncWorker } from './workers/sync-worker.ts';
import { ThumbnailWorker } from './workers/thumbnail-worker.ts';

/** What the service is made from; everything that differs between production, demo and tests. */
export interface ServiceOptions {
  config: Config;
  connectionString: string;
  encryptionKeys: readonly string[];
  logger: Logger;
  clock?: Clock;
  random?: () => number;
  /** The activities page may be seen without signing in (the demo). */
  openPages?: boolean;
}

/** A running process of the service, whatever its roles. */
export interface Service {
  /** Where it listens on this machine. */
  url: string;
  port: number;
  database: Database;
  boss: PgBoss;
  budget: Budget;
  hub: NotifyHub;
  metrics: Metrics;
  provider: Provider;
  /** Ordered: intake, running jobs, connections. @param graceMs for running jobs to finish before they are put back */
  stop(graceMs?: number): Promise<void>;
}

const WEB_CONNECTIONS = 10;
const DEFAULT_GRACE_MS = 10_000;
const VERSION = '0.1.0';

/**
 * The only place where the parts are put together. The database must be migrated.
 */
export async function startService(options: ServiceOptions): Promise<Service> {
  const { config, logger, connectionString } = options;
  const clock = options.clock ?? systemClock;
  const random = options.random ?? Math.random;
  const now = () => clock.now();
  const has = (role: Config['SERVICE_ROLES'][number]) => config.SERVICE_ROLES.includes(role);
  const metrics = createMetrics();

  const database = openDatabase({
    connectionString,
    maxConnections: WEB_CONNECTIONS + config.FETCH_CONCURRENCY * 2,
    applicationName: `activity-sync ${config.SERVICE_ROLES.join(',')}`,
    onError: (error) =>
      logger.warn('a database connection was lost; the pool makes another', {
        component: 'database',
        error: error.message,
      }),
  });
  const boss = createBoss({ database, clock, logger, migrate: false, supervise: has('fetch') });
  await database.query('SELECT 1');
  await boss.start();
  const hub = new NotifyHub({ connectionString, clock, logger, metrics });
  const secretBox = createSecretBox(options.encryptionKeys);
  const budget = createBudget(database);
  const transport = createTransport({
    origin: config.PROVIDER_API_URL,
    timeoutMs: config.FETCH_TIMEOUT_MS,
    userAgent: `activity-sync/${VERSION} (+${config.NEXT_PUBLIC_BASE_URL})`,
    now,
    observer: {
      call: (endpoint, code, seconds) => {
        metrics.providerCalls.inc({ endpoint, code });
        metrics.providerDuration.observe({ endpoint }, seconds);
      },
      usage: (usage, ageMs) => {
        budget.correct(usage, ageMs).catch((error: Error) =>
          logger.warn('the provider’s usage figures could not be kept', {
            component: 'budget',
            error: error.message,
          }),
        );
      },
    },
  });
  const provider = createProvider(transport, {
    origin: config.PROVIDER_API_URL,
    clientId: config.PROVIDER_CLIENT_ID,
    clientSecret: config.PROVIDER_CLIENT_SECRET,
  });
  const accessTokens = createAccessTokens({ database, secretBox, provider, metrics, now });
  const map =
    has('thumbnail') && config.THUMBNAIL_MAP_SOURCE !== 'none'
      ? createTileSource({
          urlTemplate: config.THUMBNAIL_MAP_SOURCE,
          userAgent: `activity-sync/${VERSION} (+${config.NEXT_PUBLIC_BASE_URL})`,
          cacheMaxTiles: 500,
          timeoutMs: 5000,
        })
      : undefined;
  const common = { database, boss, hub, clock, config, logger, metrics };
  const backoff = { baseMs: config.FETCH_BACKOFF_BASE_MS, capMs: config.FETCH_BACKOFF_CAP_MS };
  const listPage = createListPage({ database, provider, accessTokens, budget, logger, metrics });
  const readWaits = createPacedRead(() => countWaits(database));
  const workers = [
    new MetricsCollector({ ...common, budget, readWaits, readsQueue: has('web') || has('fetch') }),
    ...(has('web') || has('fetch') ? [new Retention({ ...common, days: config.JOB_RETENTION_DAYS })] : []),
    ...(has('fetch')
      ? [
          new FetchWorker({
            ...common,
            provider,
            accessTokens,
            claimRun: createClaimRun(database, boss),
            storeRun: createStoreRun(database, boss),
            budget,
            random,
            backoff,
            cooldownMs: config.PROVIDER_ATHLETE_COOLDOWN,
            grantValidMs: budgetMargins(config.PROVIDER_RATE_LIMIT_INTERVAL).lagMs,
            callWithinMs: config.FETCH_TIMEOUT_MS,
          }),
        ]
      : []),
    ...(has('thumbnail')
      ? [new ThumbnailWorker({ ...common, sizePx: config.THUMBNAIL_SIZE, debug: config.THUMBNAIL_DEBUG, map })]
      : []),
    ...(has('polling')
      ? [new PollingWorker({ ...common, listPage, backoff, random, stopAfter: config.POLLING_STOP_AFTER })]
      : []),
    ...(has('polling') || has('fetch') ? [new SyncWorker({ ...common, listPage, backoff, random })] : []),
  ];

  const first: Router[] = [];
  let adminApi: AdminApi | undefined;
  const routers: Router[] = [];
  const health = createHealthRouter({
    metrics,
    readiness: {
      database: async () => ((await database.query('SELECT 1')).length === 1 ? true : 'no answer'),
      schema: async () => ((await boss.isInstalled()) ? true : 'not migrated'),
      listener: async () => (hub.connected ? true : 'the LISTEN connection is down; it is being made anew'),
    },
  });
  if (has('web')) {
    const verifyToken = config.PROVIDER_VERIFY_TOKEN ?? '';
    const callbackUrl = `${config.NEXT_PUBLIC_BASE_URL}${WEBHOOK_PATH}`;
    const knownSubscriptions = createKnownSubscriptions(database, logger, now);
    const auth = createAdminAuth({
      adminToken: config.ADMIN_TOKEN,
      readToken: config.ADMIN_READ_TOKEN,
      secureCookie: config.NEXT_PUBLIC_BASE_URL.startsWith('https:'),
      now,
    });
    const connectAthlete = createConnectAthlete({
      database,
      boss,
      provider,
      secretBox,
      logger,
      now,
      redirectUri: `${config.NEXT_PUBLIC_BASE_URL}/api/provider/callback`,
      stateSecret: config.PROVIDER_CLIENT_SECRET,
    });
    const routes: Route[] = [
      ...adminWebhookRoutes({
        subscriptions: createSubscriptions(database, provider, knownSubscriptions),
        callbackUrl,
        verifyToken,
      }),
      ...adminSyncRoutes({
        syncs: createSyncs({
          database,
          budget,
          now,
          cooldownMs: config.PROVIDER_ATHLETE_COOLDOWN,
          retentionDays: config.JOB_RETENTION_DAYS,
        }),
      }),
    ];
    const erase = createEraseAthlete({ database, boss, logger });
    adminApi = createAdminApi({
      database,
      boss,
      hub,
      budget,
      readWaits,
      auth,
      disconnect: createDisconnectAthlete({ database, provider, accessTokens, erase, logger }),
      clock,
      logger,
      moreRoutes: routes,
      about: { version: VERSION, url: config.NEXT_PUBLIC_BASE_URL },
    });
    first.push(
      createWebhookRouter({
        acceptWebhook: createAcceptWebhook(database, boss),
        deauthorize: erase,
        knownSubscriptions,
        verifyToken,
        webhookSecret: config.PROVIDER_WEBHOOK_SECRET,
        logger,
        metrics,
        now,
      }),
    );
    routers.push(
      health,
      createOauthRouter(connectAthlete),
      adminApi.router,
      createPagesRouter({ database, auth, open: options.openPages ?? false, signInLimit: limitSignIn() }),
    );
  } else routers.push(health);

  const server = createServer(createApp({ first, routers, logger, metrics }));
  await budget.configure({
    capacity: config.PROVIDER_RATE_LIMIT_CAPACITY,
    intervalMs: config.PROVIDER_RATE_LIMIT_INTERVAL,
  });
  await hub.start();
  const port = await listen(server, config.PORT);
  for (const worker of workers) worker.start();
  logger.info('service started', { component: 'main', port, roles: config.SERVICE_ROLES.join(',') });

  const stop = async (graceMs = DEFAULT_GRACE_MS): Promise<void> => {
    adminApi?.stop();
    await closeServer(server);
    await Promise.all(workers.map((worker) => worker.stop(graceMs)));
    await hub.stop();
    await boss.stop({ graceful: false, close: false });
    transport.close();
    map?.close();
    await database.close();
    logger.info('service stopped', { component: 'main' });
  };
  let stopping: Promise<void> | undefined;
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    database,
    boss,
    budget,
    hub,
    metrics,
    provider,
    stop: (graceMs) => {
      stopping ??= stop(graceMs);
      return stopping;
    },
  };
}

async function listen(server: Server, port: number): Promise<number> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, () => {
      server.off('error', reject);
      resolve();
    });
  });
  return (server.address() as AddressInfo).port;
}

/** No new connections; requests under way are answered, idle connections closed. */
async function closeServer(server: Server): Promise<void> {
  await new Promise<void>((resolve) => {
    server.close(() => resolve());
    server.closeIdleConnections();
    const deadline = setTimeout(() => server.closeAllConnections(), 3000);
    server.once('close', () => clearTimeout(deadline));
  });
}
