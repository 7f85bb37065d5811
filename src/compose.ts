import type { PgBoss } from 'pg-boss';
import { createParts } from './compose/parts.ts';
import { createWeb } from './compose/web.ts';
import { createWorkers } from './compose/workers.ts';
import { type Clock, systemClock } from './domain/clock.ts';
import type { AccessTokens } from './flows/access-token.ts';
import { loadConsoleAssets } from './http/console-assets.ts';
import type { Config } from './infra/config.ts';
import type { Database } from './infra/database.ts';
import { type HttpServer, listen } from './infra/http-server.ts';
import type { Logger } from './infra/logger.ts';
import type { Metrics } from './infra/metrics.ts';
import type { NotifyHub } from './infra/notify-hub.ts';
import { checkSchema } from './infra/schema/check-schema.ts';
import type { Release } from './infra/schema/release.ts';
import type { Provider } from './provider/client.ts';
import type { Budget } from './queue/budget.ts';

/** What the service is made from; everything that differs between production, demo and tests. */
export interface ServiceOptions {
  config: Config;
  connectionString: string;
  encryptionKeys: readonly string[];
  logger: Logger;
  clock?: Clock;
  random?: () => number;
  /** Whose schema the database must have: this one's, unless a test plays another. */
  release?: Release;
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
  accessTokens: AccessTokens;
  /** Ordered: intake, running jobs, connections. @param graceMs for running jobs to finish before they are released */
  stop(graceMs?: number): Promise<void>;
}

const DEFAULT_GRACE_MS = 10_000;

/**
 * Starts a process of the service. The database must be migrated. A start that fails leaves nothing open.
 * @throws ListenError; MigrationError for a schema that this release cannot serve with; the database's error when it cannot be reached
 */
export async function startService(options: ServiceOptions): Promise<Service> {
  const { config, logger } = options;
  const consoleAssets = config.SERVICE_ROLES.includes('web') ? await loadConsoleAssets() : new Map();
  const parts = createParts({ ...options, clock: options.clock ?? systemClock, random: options.random ?? Math.random });
  const { database, boss, hub, budget, metrics, provider, accessTokens } = parts;
  const web = createWeb(parts, { openPages: options.openPages ?? false, consoleAssets });
  const background = createWorkers(parts);
  let server: HttpServer | undefined;

  const stop = async (graceMs = DEFAULT_GRACE_MS): Promise<void> => {
    await web.stop();
    await server?.close();
    await Promise.all(background.workers.map((worker) => worker.stop(graceMs)));
    // Last, so that it writes down how the others' last runs ended.
    await background.recorder.stop();
    await hub.stop();
    await boss.stop({ graceful: false, close: false });
    parts.transport.close();
    background.close();
    await database.close();
  };

  try {
    await checkSchema({ database, boss, release: parts.release, logger });
    await boss.start();
    await budget.configure({
      capacity: config.PROVIDER_RATE_LIMIT_CAPACITY,
      intervalMs: config.PROVIDER_RATE_LIMIT_INTERVAL,
    });
    await hub.start();
    server = await listen(web.app, config.PORT);
  } catch (error) {
    await stop();
    throw error;
  }
  for (const worker of [background.recorder, ...background.workers]) worker.start();
  const isClosed = config.SERVICE_ROLES.includes('web') && config.ADMIN_TOKEN === undefined;
  logger.info('service started', {
    component: 'main',
    port: server.port,
    roles: config.SERVICE_ROLES.join(','),
    ...(isClosed ? { console: 'closed; to open it, set ADMIN_TOKEN and restart' } : {}),
  });

  let stopping: Promise<void> | undefined;
  return {
    url: `http://127.0.0.1:${server.port}`,
    port: server.port,
    database,
    boss,
    budget,
    hub,
    metrics,
    provider,
    accessTokens,
    stop: (graceMs) => {
      stopping ??= stop(graceMs).then(() => {
        logger.info('service stopped', { component: 'main' });
      });
      return stopping;
    },
  };
}
