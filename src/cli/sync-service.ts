import type { Int64 } from '../domain/int64.ts';
import { createSyncs, type SyncProgress, SyncRefusedError, type Syncs } from '../flows/sync-progress.ts';
import { readVariables } from '../infra/config.ts';
import { openDatabase } from '../infra/database.ts';
import { createBudget } from '../queue/budget.ts';
import { CommandError, EXIT } from './command-error.ts';
import { findService, type ServiceClient } from './service-client.ts';
import type { SyncInput } from './sync-input.ts';

/** Bulk syncs, through the running service or, where none answers, its database. */
export interface SyncService {
  begin(input: SyncInput): Promise<string>;
  show(id: Int64): Promise<SyncProgress>;
  list(): Promise<SyncProgress[]>;
  cancel(id: Int64): Promise<SyncProgress>;
  /** Said once, when a sync is started. */
  readonly remark: string | undefined;
  close(): Promise<void>;
}

const LISTED = 20;

/** @throws CommandError when neither a service nor a database can be reached */
export async function openSyncService(url: string | undefined): Promise<SyncService> {
  const service = await findService(url);
  return service ? overHttp(service) : overDatabase();
}

function overHttp(service: ServiceClient): SyncService {
  const path = (id: Int64) => `/api/admin/syncs/${id}`;
  return {
    begin: async ({ athleteId, afterS, beforeS, force }) => {
      const where = athleteId === undefined ? '/api/admin/sync' : `/api/admin/athletes/${athleteId}/sync`;
      return (await service.send<{ id: string }>('POST', where, { after: afterS, before: beforeS, force })).id;
    },
    show: (id) => service.send('GET', path(id)),
    list: async () => (await service.send<{ syncs: SyncProgress[] }>('GET', `/api/admin/syncs?limit=${LISTED}`)).syncs,
    cancel: (id) => service.send('POST', `${path(id)}/cancel`),
    remark: undefined,
    close: async () => undefined,
  };
}

async function overDatabase(): Promise<SyncService> {
  const config = readVariables(['PROVIDER_ATHLETE_COOLDOWN', 'JOB_RETENTION_DAYS'], ['DATABASE_URL']);
  if (config.DATABASE_URL === undefined) {
    throw new CommandError(
      'No service answers at NEXT_PUBLIC_BASE_URL or on this machine, and DATABASE_URL is not set. Start the service (npm start), or name it with --url.',
    );
  }
  const database = openDatabase({
    connectionString: config.DATABASE_URL,
    maxConnections: 2,
    applicationName: 'activity-sync command-line',
    onError: () => undefined, // the failing statement reports it
  });
  const syncs = createSyncs({
    database,
    budget: createBudget(database),
    now: Date.now,
    cooldownMs: config.PROVIDER_ATHLETE_COOLDOWN,
  });
  const show = async (id: Int64) => mustExist(id, await syncs.find(id));
  return {
    begin: (input) => beginIn(syncs, input),
    show,
    list: () => syncs.list(LISTED),
    cancel: async (id) => {
      const cancelled = mustExist(id, await syncs.cancel(id));
      const sync = await show(id);
      if (!cancelled && sync.state !== 'cancelled')
        throw new CommandError(`Sync ${id} has already ended; it is ${sync.state}.`);
      return sync;
    },
    remark: 'No service answers; the sync is recorded in the database and starts when a service does.',
    close: () => database.close(),
  };
}

async function beginIn(syncs: Syncs, input: SyncInput): Promise<string> {
  try {
    return await syncs.start(input);
  } catch (error) {
    if (error instanceof SyncRefusedError)
      throw new CommandError(error.message, error.why === 'future' ? EXIT.usage : EXIT.failed);
    throw error;
  }
}

function mustExist<T>(id: string, found: T | undefined): T {
  if (found === undefined) throw new CommandError(`There is no sync ${id}.`);
  return found;
}
