import type { Int64 } from '../domain/int64.ts';
import type { Queryable } from '../infra/database.ts';
import type { PageStep } from '../store/list-walks.ts';
import { findListed, type KnownActivity } from '../store/listed-activities.ts';
import {
  type Difference,
  findUnlisted,
  hasOlderActivity,
  NOT_LISTED,
  noteDifferences,
} from '../store/polling-differences.ts';
import { endsList, type ListedActivity, type ListedPage, type PageDecision } from './list-page.ts';

// A webhook may take that long to arrive, and the provider's list may lag behind the details for as long.
const SETTLE_MS = 120_000;

/**
 * What a sweep does with a page: it fetches what is unknown, changed or no longer listed, and stops reading the
 * athlete's list after `stopAfter` known activities in a row.
 * @param athlete.connectedAt when the athlete connected: webhooks announce what ends after that
 */
export async function pollPage(
  tx: Queryable,
  step: PageStep,
  page: ListedPage,
  athlete: { connectedAt: Date; stopAfter: number },
): Promise<PageDecision> {
  const { activities } = page;
  const known = await findListed(
    tx,
    activities.map(({ activityId }) => activityId),
  );
  const unknown = activities.filter((one) => !isKnown(known.get(one.activityId)));
  const changed = await noteDifferences(tx, findChanges(activities, known, step.claimedAt));
  const vanished = await findVanished(tx, step, page);
  const missed = unknown.filter((one) => isMissed(one, known.get(one.activityId), athlete.connectedAt, step.claimedAt));
  const run = countKnownInARow(activities, known, step.knownInARow);
  const isShortAndKnown = !page.full && unknown.length === 0;
  return {
    fetches: [
      ...unknown.map(({ activityId }) => ({ activityId, force: false })),
      // A vanished activity is fetched again: the answer 404 removes it.
      ...[...changed, ...vanished].map((activityId) => ({ activityId, force: true })),
    ],
    listed: activities.length,
    isOver:
      endsList(page) ||
      run.longest >= athlete.stopAfter ||
      (isShortAndKnown && !(await hasOlderActivity(tx, step.athleteId, page.oldest ?? new Date(0)))),
    knownInARow: run.atEnd,
    drift: { missed: missed.length, changed: changed.length, vanished: vanished.length },
  };
}

function isKnown(known: KnownActivity | undefined): boolean {
  return known !== undefined && (known.stored || known.tombstoned || known.open || known.unfetchable);
}

/** Webhooks take a moment. What was requested before is not missed: it could not be fetched. */
function isMissed(
  activity: ListedActivity,
  known: KnownActivity | undefined,
  connectedAt: Date,
  listedAt: Date,
): boolean {
  const endedAt = activity.startDate.getTime() + activity.elapsedTimeS * 1000;
  return endedAt > connectedAt.getTime() && endedAt < listedAt.getTime() - SETTLE_MS && !known?.requested;
}

function findChanges(
  activities: readonly ListedActivity[],
  known: ReadonlyMap<Int64, KnownActivity>,
  listedAt: Date,
): Difference[] {
  return activities.flatMap((activity) => {
    const stored = known.get(activity.activityId);
    if (!stored?.fetchedAt || stored.open || stored.fetchedAt.getTime() > listedAt.getTime() - SETTLE_MS) return [];
    return isSame(activity, stored) ? [] : [{ activityId: activity.activityId, summary: JSON.stringify(activity) }];
  });
}

const METRES_OF_ROUNDING = 0.5;
const COMPARED = ['name', 'sportType', 'movingTimeS', 'elapsedTimeS', 'private'] as const;

function isSame(listed: ListedActivity, stored: KnownActivity): boolean {
  return (
    COMPARED.every((field) => listed[field] === stored[field]) &&
    listed.startDate.getTime() === stored.startDate?.getTime() &&
    Math.abs(listed.distanceM - (stored.distanceM ?? Number.NaN)) <= METRES_OF_ROUNDING
  );
}

async function findVanished(tx: Queryable, step: PageStep, page: ListedPage): Promise<Int64[]> {
  // Only an empty page says that nothing older is there; a short one may have a successor.
  const span = {
    fromS: endsList(page) ? null : Math.floor((page.oldest?.getTime() ?? 0) / 1000),
    beforeS: step.cursor.beforeS,
    storedBefore: new Date(step.claimedAt.getTime() - SETTLE_MS),
  };
  const listed = [...page.activities.map(({ activityId }) => activityId), ...step.cursor.boundary];
  const unlisted = await findUnlisted(tx, step.athleteId, span, listed);
  return noteDifferences(
    tx,
    unlisted.map((activityId) => ({ activityId, summary: NOT_LISTED })),
  );
}

function countKnownInARow(
  activities: readonly ListedActivity[],
  known: ReadonlyMap<Int64, KnownActivity>,
  before: number,
): { longest: number; atEnd: number } {
  let atEnd = before;
  let longest = before;
  for (const { activityId } of activities) {
    atEnd = isKnown(known.get(activityId)) ? atEnd + 1 : 0;
    longest = Math.max(longest, atEnd);
  }
  return { longest, atEnd };
}
