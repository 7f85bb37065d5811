import { type Int64, toInt64 } from '../domain/int64.ts';
import { toEpochSeconds } from '../domain/moment.ts';
import { createSyncs, type SyncProgress, SyncRefusedError, type Syncs } from '../flows/sync-progress.ts';
import { readVariables } from '../infra/config.ts';
import { openDatabase } from '../infra/database.ts';
import { createBudget } from '../queue/budget.ts';
import { CommandError, EXIT } from './command-error.ts';
import { findService, type ServiceClient } from './service-client.ts';

/** What a sync is asked for, as typed. */
export interface SyncInput {
  athleteId: string | undefined;
  after: string | undefined;
  before: string | undefined;
  force: boolean;
}

/** Bulk syncs, through the running service or, where none answers, its database. */
export interface SyncService {
  begin(input: SyncInput): Promise<string>;
  show(id: string): Promise<SyncProgress>;
  list(): Promise<SyncProgress[]>;
  cancel(id: string): Promise<SyncProgress>;
  /** Said once, when a sync is begun. */
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
  const path = (id: string) => `/api/admin/syncs/${encodeURIComponent(id)}`;
  return {
    begin: async ({ athleteId, after, before, force }) => {
      const where =
        athleteId === undefined ? '/api/admin/sync' : `/api/admin/athletes/${encodeURIComponent(athleteId)}/sync`;
      return (await service.send<{ id: string }>('POST', where, { after, before, force })).id;
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
    onError: () => undefined, // the statement that notices says so
  });
  const syncs = createSyncs({
    database,
    budget: createBudget(database),
    now: Date.now,
    cooldownMs: config.PROVIDER_ATHLETE_COOLDOWN,
  });
  const show = async (id: string) => mustExist(id, await syncs.find(toId(id)));
  return {
    begin: (input) => beginIn(syncs, input),
    show,
    list: () => syncs.list(LISTED),
    cancel: async (id) => {
      const cancelled = mustExist(id, await syncs.cancel(toId(id)));
      const sync = await show(id);
      if (!cancelled && sync.state !== 'cancelled')
        throw new CommandError(`Sync ${id} has ended already; it is ${sync.state}.`);
      return sync;
    },
    remark: 'No service answers; the sync is noted in the database and begins when one runs.',
    close: () => database.close(),
  };
}

async function beginIn(syncs: Syncs, input: SyncInput): Promise<string> {
  const afterS = toSeconds('--after', input.after);
  const beforeS = toSeconds('--before', input.before);
  if (afterS !== undefined && beforeS !== undefined && afterS >= beforeS)
    throw new CommandError('--before must be later than --after.', EXIT.usage);
  try {
    const athleteId = input.athleteId === undefined ? undefined : toId(input.athleteId);
    return await syncs.start({ athleteId, afterS, beforeS, force: input.force });
  } catch (error) {
    if (error instanceof SyncRefusedError) throw new CommandError(error.message);
    throw error;
  }
}

function toSeconds(option: string, value: string | undefined): number | undefined {
  const seconds = value === undefined ? undefined : toEpochSeconds(value);
  if (value !== undefined && seconds === undefined)
    throw new CommandError(`${option} must be a time: ISO 8601, or whole seconds since the epoch.`, EXIT.usage);
  return seconds;
}

function toId(text: string): Int64 {
  const id = toInt64(text);
  if (id === undefined) throw new CommandError(`"${text}" is not an id.`, EXIT.usage);
  return id;
}

function mustExist<T>(id: string, found: T | undefined): T {
  if (found === undefined) throw new CommandError(`There is no sync ${id}.`);
  return found;
}
