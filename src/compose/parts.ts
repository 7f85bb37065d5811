import type { PgBoss } from 'pg-boss';
import type { Clock } from '../domain/clock.ts';
import { type AccessTokens, createAccessTokens } from '../flows/access-token.ts';
import { BOSS_COMPONENT, createBoss } from '../infra/boss.ts';
import type { Config } from '../infra/config.ts';
import type { Role } from '../infra/config-variables.ts';
import { type Database, openDatabase } from '../infra/database.ts';
import type { Logger } from '../infra/logger.ts';
import { createMetrics, type Metrics } from '../infra/metrics.ts';
import { NotifyHub } from '../infra/notify-hub.ts';
import { createOutboundGuard, type OutboundGuard } from '../infra/outbound-address.ts';
import { createPacedRead, type PacedRead } from '../infra/paced-read.ts';
import { Presence } from '../infra/presence.ts';
import { type Release, THIS_RELEASE } from '../infra/schema/release.ts';
import { createSecretBox, type SecretBox } from '../infra/secret-box.ts';
import { createProvider, type Provider } from '../provider/client.ts';
import { createTransport, type Transport } from '../provider/transport.ts';
import { type Budget, createBudget } from '../queue/budget.ts';
import { countWaits, type Waits } from '../store/job-waits.ts';

export const VERSION = THIS_RELEASE.version;
const WEB_CONNECTIONS = 10;

/** What every role of a process shares. */
export interface Parts {
  config: Config;
  release: Release;
  clock: Clock;
  now: () => number;
  random: () => number;
  logger: Logger;
  metrics: Metrics;
  database: Database;
  boss: PgBoss;
  hub: NotifyHub;
  presence: Presence;
  secretBox: SecretBox;
  /** Which addresses of the application may be called. */
  guard: OutboundGuard;
  budget: Budget;
  transport: Transport;
  provider: Provider;
  accessTokens: AccessTokens;
  readWaits: PacedRead<Waits>;
  /** Names this service to the provider and to tile servers. */
  userAgent: string;
  has(role: Role): boolean;
}

/** Makes the shared parts; opens nothing yet but the pool, which connects when it is first used. */
export function createParts(options: {
  config: Config;
  release?: Release | undefined;
  connectionString: string;
  encryptionKeys: readonly string[];
  logger: Logger;
  clock: Clock;
  random: () => number;
}): Parts {
  const { config, logger, clock, connectionString } = options;
  const now = () => clock.now();
  const has = (role: Role) => config.SERVICE_ROLES.includes(role);
  const metrics = createMetrics();
  const database = openDatabase({
    connectionString,
    maxConnections: WEB_CONNECTIONS + config.FETCH_CONCURRENCY * 2,
    // A token refresh keeps one open during its call.
    idleTransactionMs: Math.max(60_000, 3 * config.FETCH_TIMEOUT_MS),
    applicationName: `activity-sync ${config.SERVICE_ROLES.join(',')}`,
    onError: (error) =>
      logger.warn('database connection lost, the pool replaces it', {
        component: 'database',
        error: error.message,
      }),
  });
  const boss = createBoss({
    database,
    clock,
    logger,
    migrate: false,
    supervise: has('fetch'),
    onError: () => metrics.errors.inc({ component: BOSS_COMPONENT }),
  });
  const presence = new Presence({ clock, roles: config.SERVICE_ROLES, version: VERSION });
  const secretBox = createSecretBox(options.encryptionKeys);
  const budget = createBudget(database, (reason, result) => metrics.budgetGrants.inc({ reason, result }));
  const userAgent = `activity-sync/${VERSION} (+${config.NEXT_PUBLIC_BASE_URL})`;
  const transport = createTransport({
    origin: config.PROVIDER_API_URL,
    timeoutMs: config.FETCH_TIMEOUT_MS,
    userAgent,
    now,
    observer: {
      call: (endpoint, code, seconds) => {
        metrics.providerCalls.inc({ endpoint, code });
        metrics.providerDuration.observe({ endpoint }, seconds);
      },
      usage: (usage, ageMs) => {
        budget.correct(usage, ageMs).catch((error: Error) =>
          logger.warn('provider’s usage figures not stored', {
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
  return {
    config,
    release: options.release ?? THIS_RELEASE,
    clock,
    now,
    random: options.random,
    logger,
    metrics,
    database,
    boss,
    hub: new NotifyHub({ connectionString, clock, logger, metrics, presence }),
    presence,
    secretBox,
    guard: createOutboundGuard({ allowPrivate: config.OUTBOUND_ALLOW_PRIVATE }),
    budget,
    transport,
    provider,
    accessTokens: createAccessTokens({ database, boss, secretBox, provider, metrics, now }),
    readWaits: createPacedRead(() => countWaits(database)),
    userAgent,
    has,
  };
}
