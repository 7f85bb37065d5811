import type { PgBoss } from 'pg-boss';
import type { Int64 } from '../domain/int64.ts';
import { DELIVERY_QUEUE, FETCH_QUEUE } from '../infra/boss.ts';
import type { Database } from '../infra/database.ts';
import type { Logger } from '../infra/logger.ts';
import { notify } from '../infra/notify.ts';
import { deleteDeauthorizations } from '../queue/deauthorization-queue.ts';
import { deleteThumbnailJobs } from '../queue/thumbnail-queue.ts';
import { hasConnectedSince } from '../store/athletes.ts';
import { eraseAthleteRows, lockForErasure } from '../store/erasure.ts';

/**
 * Erases an athlete who withdrew access.
 * @param withdrawnAt when, by the provider's clock
 * @returns false when the athlete has reconnected since: the withdrawal is an old one, and nothing is erased
 */
export type EraseAthlete = (athleteId: Int64, withdrawnAt?: Date) => Promise<boolean>;

// The provider repeats it for some minutes; its clock and ours may differ slightly.
export const CLOCKS_DIFFER_MS = 60_000;

/**
 * Erases everything kept of an athlete in one transaction: tokens, activities, thumbnails, jobs and the
 * ledger. A running fetch loses its claim, and with it its result. Erasing twice does no harm.
 */
export function createEraseAthlete(deps: { database: Database; boss: PgBoss; logger: Logger }): EraseAthlete {
  return async (athleteId, withdrawnAt) => {
    const erased = await deps.database.transaction(async (tx) => {
      await lockForErasure(tx, athleteId);
      if (withdrawnAt && (await hasConnectedSince(tx, athleteId, new Date(withdrawnAt.getTime() + CLOCKS_DIFFER_MS)))) {
        return undefined;
      }
      const rows = await eraseAthleteRows(tx, athleteId);
      if (rows.fetchJobs.length > 0) await deps.boss.deleteJob(FETCH_QUEUE, rows.fetchJobs, { db: tx });
      if (rows.deliveryJobs.length > 0) await deps.boss.deleteJob(DELIVERY_QUEUE, rows.deliveryJobs, { db: tx });
      await deleteThumbnailJobs(deps.boss, tx, rows.pictured);
      await deleteDeauthorizations(deps.boss, tx, athleteId);
      if (rows.known) await notify(tx, 'athlete');
      return rows;
    });
    if (!erased) {
      deps.logger.warn('old deauthorisation ignored, athlete has reconnected since', {
        component: 'erasure',
        athleteId,
      });
      return false;
    }
    // Without the id: the log must not keep what was just erased.
    deps.logger.info('athlete erased', {
      component: 'erasure',
      activities: erased.activities,
      jobs: erased.fetchJobs.length,
    });
    return true;
  };
}
