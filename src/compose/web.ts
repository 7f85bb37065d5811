import { type Express, Router } from 'express';
import { createAcceptWebhook } from '../flows/accept-webhook.ts';
import { createAcceptDeauthorization } from '../flows/confirm-deauthorization.ts';
import { createConnectAthlete } from '../flows/connect-athlete.ts';
import { createDisconnectAthlete } from '../flows/disconnect-athlete.ts';
import { createEraseAthlete } from '../flows/erase-athlete.ts';
import { createKnownSubscriptions, type KnownSubscriptions } from '../flows/known-subscriptions.ts';
import { createEndpoints } from '../flows/manage-endpoints.ts';
import { createSubscriptions } from '../flows/manage-subscriptions.ts';
import { createDoctor } from '../flows/standing-doctor.ts';
import { createSyncs } from '../flows/sync-progress.ts';
import { stopsForThrottle } from '../flows/throttled.ts';
import { createAdminApi } from '../http/admin-api.ts';
import { createAdminAuth } from '../http/admin-auth.ts';
import { createApiGuard } from '../http/api-auth.ts';
import { createApp } from '../http/app.ts';
import { createAudit } from '../http/audit.ts';
import { createChangeFeed } from '../http/change-feed.ts';
import type { ConsoleAssets } from '../http/console-assets.ts';
import { createRefusedTries } from '../http/refused-tries.ts';
import { mountRoutes } from '../http/route.ts';
import { adminDoctorRoutes } from '../http/routes/admin-doctor.ts';
import { adminSyncRoutes } from '../http/routes/admin-syncs.ts';
import { adminWebhookRoutes } from '../http/routes/admin-webhooks.ts';
import { createConsoleRouter } from '../http/routes/console.ts';
import { createHealthRouter } from '../http/routes/health.ts';
import { createOauthRouter } from '../http/routes/oauth.ts';
import { createPagesRouter } from '../http/routes/pages.ts';
import { v1ActivityRoutes } from '../http/routes/v1-activities.ts';
import { v1AthleteRoutes } from '../http/routes/v1-athletes.ts';
import { v1ChangeRoutes } from '../http/routes/v1-changes.ts';
import { v1ConnectLinkRoutes } from '../http/routes/v1-connect-links.ts';
import { v1EndpointRoutes } from '../http/routes/v1-endpoints.ts';
import { createWebhookRouter, WEBHOOK_PATH } from '../http/routes/webhook.ts';
import { createSignIn } from '../http/sign-in.ts';
import { findSchemaProblem } from '../infra/schema/check-schema.ts';
import { readDeliveries } from '../store/deliveries.ts';
import { type Parts, VERSION } from './parts.ts';

const WRITABLE = `SELECT NOT pg_is_in_recovery() AND NOT current_setting('transaction_read_only')::boolean AS writable`;

/** The HTTP side of a process: health for every role, everything else for the role web. */
export interface Web {
  app: Express;
  /** Ends the live event streams, which would keep the server from closing, and logs refused tokens. */
  stop(): Promise<void>;
}

/** @param options.consoleAssets needed by the role web alone */
export function createWeb(parts: Parts, options: { openPages: boolean; consoleAssets: ConsoleAssets }): Web {
  const { database, hub, logger, metrics, release } = parts;
  const health = createHealthRouter({
    metrics,
    readiness: {
      database: async () => {
        const [row] = await database.query<{ writable: boolean }>(WRITABLE, []);
        return row?.writable ? true : 'it is read-only; point DATABASE_URL to the primary server';
      },
      schema: async () => (await findSchemaProblem(database, release)) ?? true,
      listener: async () => (hub.connected ? true : 'the LISTEN connection is down, reconnecting'),
    },
  });
  if (!parts.has('web')) {
    return {
      app: createApp({ first: [], routers: [health], trustedProxies: parts.config.TRUSTED_PROXIES, logger, metrics }),
      stop: async () => undefined,
    };
  }
  return createPublicWeb(parts, health, options);
}

function createPublicWeb(
  parts: Parts,
  health: ReturnType<typeof createHealthRouter>,
  options: { openPages: boolean; consoleAssets: ConsoleAssets },
): Web {
  const { config, database, boss, provider, logger, metrics, now } = parts;
  const baseUrl = config.NEXT_PUBLIC_BASE_URL;
  const verifyToken = config.PROVIDER_VERIFY_TOKEN ?? '';
  const subscriptionCalls = stopsForThrottle(provider, parts);
  const knownSubscriptions: KnownSubscriptions = createKnownSubscriptions({
    ...parts,
    askProvider: () => subscriptions.list(),
  });
  const subscriptions = createSubscriptions(database, subscriptionCalls, knownSubscriptions);
  const secureCookie = baseUrl.startsWith('https:');
  const audit = createAudit(database, logger);
  const refusedTries = createRefusedTries({ ...parts, audit });
  const auth = createAdminAuth({
    database,
    refusedTries,
    adminToken: config.ADMIN_TOKEN,
    readToken: config.ADMIN_READ_TOKEN,
    secureCookie,
  });
  const signIn = createSignIn(auth, audit);
  const connectAthlete = createConnectAthlete({
    ...parts,
    redirectUri: `${baseUrl}/api/provider/callback`,
    stateSecret: config.PROVIDER_CLIENT_SECRET,
  });
  const erase = createEraseAthlete({ database, boss, logger });
  const doctor = createDoctor({
    provider: subscriptionCalls,
    callbackUrl: `${baseUrl}${WEBHOOK_PATH}`,
    providerOrigin: config.PROVIDER_API_URL,
    verifyToken: config.PROVIDER_VERIFY_TOKEN,
    signed: config.PROVIDER_WEBHOOK_SECRET !== undefined,
    readDeliveries: () => readDeliveries(database),
    now,
    logger,
  });
  const disconnect = createDisconnectAthlete({ ...parts, erase });
  const feed = createChangeFeed(parts);
  const applicationRoutes = [
    ...v1ChangeRoutes({ feed }),
    ...v1ActivityRoutes({ database }),
    ...v1AthleteRoutes({ database, disconnect }),
    ...v1EndpointRoutes({ database, endpoints: createEndpoints(parts) }),
    ...v1ConnectLinkRoutes({ connectAthlete, baseUrl, returnOrigins: config.RETURN_ORIGINS }),
  ];
  const application = Router();
  const applicationGuard = createApiGuard({ database, auth, perMinute: config.API_RATE_LIMIT });
  mountRoutes(application, applicationRoutes, applicationGuard, audit);
  const adminApi = createAdminApi({
    ...parts,
    auth,
    audit,
    signIn,
    doctor,
    disconnect,
    applicationRoutes,
    moreRoutes: [
      ...adminWebhookRoutes({
        subscriptions,
        callbackUrl: `${baseUrl}${WEBHOOK_PATH}`,
        verifyToken,
      }),
      ...adminDoctorRoutes({ doctor }),
      ...adminSyncRoutes({
        syncs: createSyncs({
          ...parts,
          cooldownMs: config.PROVIDER_ATHLETE_COOLDOWN,
        }),
      }),
    ],
    about: { version: VERSION, url: baseUrl },
  });
  const webhook = createWebhookRouter({
    acceptWebhook: createAcceptWebhook(database, boss),
    acceptDeauthorization: createAcceptDeauthorization({ ...parts, erase }),
    knownSubscriptions,
    verifyToken,
    webhookSecret: config.PROVIDER_WEBHOOK_SECRET,
    logger,
    metrics,
    now,
  });
  const pages = createPagesRouter({ database, auth, open: options.openPages, signIn });
  const routers = [
    health,
    createOauthRouter({ connectAthlete, secureCookie, logger }),
    adminApi.router,
    application,
    createConsoleRouter(options.consoleAssets),
    pages,
  ];
  const app = createApp({
    first: [webhook],
    routers,
    trustedProxies: config.TRUSTED_PROXIES,
    logger,
    metrics,
  });
  return {
    app,
    stop: async () => {
      adminApi.stop();
      feed.close();
      await refusedTries.stop();
    },
  };
}
