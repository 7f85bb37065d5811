import { Router } from 'express';
import type { PgBoss } from 'pg-boss';
import type { Clock } from '../domain/clock.ts';
import type { DisconnectAthlete } from '../flows/disconnect-athlete.ts';
import type { Doctor } from '../flows/standing-doctor.ts';
import type { Database } from '../infra/database.ts';
import type { Logger } from '../infra/logger.ts';
import type { NotifyHub } from '../infra/notify-hub.ts';
import type { Budget } from '../queue/budget.ts';
import { countJobsByReason, sumCounts } from '../store/job-counts.ts';
import { sumWaits, type Waits } from '../store/job-waits.ts';
import type { AdminAuth } from './admin-auth.ts';
import type { Audit } from './audit.ts';
import { toBudgetBody } from './budget-body.ts';
import { describedRoutes } from './described-routes.ts';
import { createEventStream } from './event-stream.ts';
import { withTotal } from './job-body.ts';
import { openApiRoute } from './openapi.ts';
import { mountRoutes, type Route } from './route.ts';
import { adminActivityRoutes } from './routes/admin-activities.ts';
import { adminApiTokenRoutes } from './routes/admin-api-tokens.ts';
import { adminAthleteRoutes } from './routes/admin-athletes.ts';
import { adminAuditRoutes } from './routes/admin-audit.ts';
import { adminBudgetRoutes } from './routes/admin-budget.ts';
import { adminBulkChangeRoutes } from './routes/admin-bulk-changes.ts';
import { adminEndpointRoutes } from './routes/admin-endpoints.ts';
import { adminEventRoutes } from './routes/admin-events.ts';
import { adminFetchingRoutes } from './routes/admin-fetching.ts';
import { adminJobChangeRoutes } from './routes/admin-job-changes.ts';
import { adminJobRoutes } from './routes/admin-jobs.ts';
import { adminOverviewRoutes } from './routes/admin-overview.ts';
import { adminSearchRoutes } from './routes/admin-search.ts';
import { adminSessionRoutes } from './routes/admin-session.ts';
import { adminWebhookEventRoutes } from './routes/admin-webhook-events.ts';
import type { SignIn } from './sign-in.ts';

/** The admin interface and its description. */
export interface AdminApi {
  router: Router;
  /** Ends the event streams, and long changes between two batches: before the server closes. */
  stop(): void;
}

/**
 * @param applicationRoutes endpoints of the application's interface, for the OpenAPI document
 * @param moreRoutes endpoints that are created elsewhere: subscriptions, syncs
 * @param about version and public address, for the OpenAPI document
 */
export function createAdminApi(deps: {
  database: Database;
  boss: PgBoss;
  hub: NotifyHub;
  budget: Budget;
  readWaits: () => Promise<Waits>;
  auth: AdminAuth;
  audit: Audit;
  signIn: SignIn;
  doctor: Doctor;
  disconnect: DisconnectAthlete;
  clock: Clock;
  logger: Logger;
  moreRoutes: readonly Route[];
  applicationRoutes: readonly Route[];
  about: { version: string; url: string };
}): AdminApi {
  const { database, boss, budget, auth, audit } = deps;
  const stopping = new AbortController();
  const readCounts = async () => sumCounts(await countJobsByReason(database));
  const readWaits = async () => sumWaits(await deps.readWaits());
  const stream = createEventStream({
    ...deps,
    figures: {
      jobs: async () => withTotal(await readCounts()),
      budget: async () => toBudgetBody(await budget.read(), await readWaits()),
    },
  });
  const routes: Route[] = [
    ...adminJobChangeRoutes({ database, boss, stopping: stopping.signal }),
    ...adminBulkChangeRoutes({ ...deps, stopping: stopping.signal }),
    ...adminJobRoutes({ database, boss, readCounts }),
    ...adminAthleteRoutes(deps),
    ...adminActivityRoutes({ database }),
    ...adminWebhookEventRoutes({ database, boss }),
    ...adminBudgetRoutes({ budget, readWaits }),
    ...adminOverviewRoutes({ ...deps, readCounts }),
    ...adminFetchingRoutes({ ...deps, readCounts }),
    ...adminEventRoutes({ stream }),
    ...adminSearchRoutes({ database }),
    ...adminAuditRoutes({ database }),
    ...adminApiTokenRoutes({ database }),
    ...adminEndpointRoutes({ database }),
    ...adminSessionRoutes(deps),
    ...deps.moreRoutes,
  ];
  const router = Router();
  const described = [...describedRoutes, ...routes, ...deps.applicationRoutes];
  mountRoutes(router, [...routes, openApiRoute(described, deps.about)], auth.guard, audit);
  return {
    router,
    stop: () => {
      stopping.abort();
      stream.close();
    },
  };
}
