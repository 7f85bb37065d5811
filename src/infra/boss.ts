import { createRequire } from 'node:module';
import { isNativeError } from 'node:util/types';
import { PgBoss } from 'pg-boss';
import type { Clock } from '../domain/clock.ts';
import { MAX_ATTEMPTS } from '../domain/job.ts';
import type { Database } from './database.ts';
import { isUnavailable } from './database-errors.ts';
import type { Logger } from './logger.ts';

export const FETCH_QUEUE = 'activity-fetch';
export const THUMBNAIL_QUEUE = 'thumbnail';
export const DEAUTHORIZATION_QUEUE = 'deauthorization';
export const DELIVERY_QUEUE = 'delivery';
export const BOSS_COMPONENT = 'pg-boss';

/** The version of its own schema that the installed pg-boss works with. */
export const BOSS_SCHEMA_VERSION: number = createRequire(import.meta.url)('pg-boss/package.json').pgboss.schema;

const TEN_YEARS_S = 10 * 365 * 86_400;
const DAY_S = 86_400;
const LONGEST_TIMER_S = 24 * DAY_S;

/**
 * Creates pg-boss on the service's own pool. It keeps the jobs' state; the service's workers ask it for
 * jobs themselves (its own `work` loop fetches only once per interval), so it listens to nothing.
 * @param options.migrate creates or upgrades its schema at its start; otherwise checkSchema must have accepted it
 */
export function createBoss(options: {
  database: Database;
  clock: Clock;
  logger: Logger;
  migrate: boolean;
  supervise: boolean;
  /** Called for each error that pg-boss reports of its own work, in addition to the log; not while the database is unreachable. */
  onError?: () => void;
}): PgBoss {
  const boss = new PgBoss({
    db: options.database,
    schema: 'pgboss',
    clock: options.clock,
    // With false it refuses a newer schema as well. checkSchema has already refused an older one.
    migrate: true,
    createSchema: options.migrate,
    // `migrate` builds the indexes of an upgraded schema.
    bamIntervalSeconds: options.migrate ? 10 : LONGEST_TIMER_S,
    supervise: options.supervise,
    flowIntervalSeconds: LONGEST_TIMER_S, // no job of ours depends on another
    schedule: false,
  });
  boss.on('error', (error) => {
    options.logger.warn('pg-boss reports an error', { component: BOSS_COMPONENT, error: error.message });
    if (!isUnavailable(asNativeError(error))) options.onError?.();
  });
  boss.on('warning', (warning) =>
    options.logger.warn('pg-boss warns', { component: BOSS_COMPONENT, warning: warning.message }),
  );
  return boss;
}

/** pg-boss reports some errors as plain copies of them. */
function asNativeError(error: { message: string }): Error {
  return isNativeError(error) ? error : Object.assign(new Error(error.message), error);
}

/**
 * Creates missing queues. Nothing is deleted by age: a job waits as long as it must,
 * and the service's own retention removes a finished job together with its request.
 */
export async function createQueues(boss: PgBoss): Promise<void> {
  const kept = {
    retentionSeconds: TEN_YEARS_S,
    deleteAfterSeconds: 0,
    retryLimit: MAX_ATTEMPTS,
    retryDelay: 30,
    partition: true,
  };
  // The service reclaims a stale job after minutes; pg-boss's own limit of a day is the safety net.
  await boss.createQueue(FETCH_QUEUE, { ...kept, policy: 'exclusive', expireInSeconds: DAY_S });
  await boss.createQueue(THUMBNAIL_QUEUE, {
    ...kept,
    policy: 'short',
    expireInSeconds: 300,
    deleteAfterSeconds: DAY_S,
    retryBackoff: true,
    retryDelayMax: 3600,
  });
  // The service schedules the next attempt after a missing answer; pg-boss retries only for a process that died.
  await boss.createQueue(DEAUTHORIZATION_QUEUE, {
    ...kept,
    expireInSeconds: 60,
    deleteAfterSeconds: DAY_S,
    retryLimit: 10_000,
    retryDelay: 1,
  });
  // The service schedules each next attempt as a job of its own; pg-boss retries only for a process that died.
  await boss.createQueue(DELIVERY_QUEUE, {
    ...kept,
    policy: 'standard',
    expireInSeconds: 30,
    deleteAfterSeconds: 3600,
    retryLimit: 10_000,
    retryDelay: 1,
  });
}
