import type { Int64 } from '../domain/int64.ts';
import type { Queryable } from '../infra/database.ts';
import type { PageStep } from '../store/list-walks.ts';
import { findListed } from '../store/listed-activities.ts';
import { findJobsOfSyncs, findSyncItems } from '../store/sync-items.ts';
import { endsList, type ListedPage, type PageDecision } from './list-page.ts';

/**
 * What a manual sync does with a page: it fetches what is not stored, or with force everything, back to the
 * sync's `after`. It joins an open job: the sync waits for it, and it costs no further call.
 */
export async function syncPage(tx: Queryable, step: PageStep, page: ListedPage): Promise<PageDecision> {
  const afterMs = step.afterS === null ? Number.NEGATIVE_INFINITY : step.afterS * 1000;
  const ids = page.activities.filter((one) => one.startDate.getTime() > afterMs).map((one) => one.activityId);
  const known = await findListed(tx, ids);
  const requested = await findSyncItems(tx, step.walkId, ids);
  const wanted = ids.filter((id) => {
    const { tombstoned, stored } = known.get(id) ?? {};
    return !tombstoned && !requested.has(id) && (step.force || !stored);
  });
  const ofSyncs = await findJobsOfSyncs(tx, wanted);
  const sharedWith = (id: Int64) => (!known.get(id)?.open ? 'nobody' : ofSyncs.has(id) ? 'syncs' : 'others');
  return {
    fetches: wanted.map((activityId) => ({ activityId, force: step.force })),
    items: wanted.map((activityId) => ({ activityId, sharedWith: sharedWith(activityId) })),
    listed: ids.length,
    isOver: endsList(page) || (page.oldest !== undefined && page.oldest.getTime() <= afterMs),
    knownInARow: 0,
  };
}
