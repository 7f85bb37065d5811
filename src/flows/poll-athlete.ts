import type { PgBoss } from 'pg-boss';
import { backoffMs } from '../domain/backoff.ts';
import type { Int64 } from '../domain/int64.ts';
import type { Database, Queryable } from '../infra/database.ts';
import type { Logger } from '../infra/logger.ts';
import type { Metrics } from '../infra/metrics.ts';
import { PER_PAGE } from '../provider/client.ts';
import { requestFetches } from '../queue/requests.ts';
import { findListed, type KnownActivity, lockListedAthlete } from '../store/listed-activities.ts';
import {
  type Difference,
  findUnlisted,
  hasOlderActivity,
  NOT_LISTED,
  noteDifferences,
} from '../store/polling-differences.ts';
import {
  endVisit,
  keepVisit,
  putOffSweep,
  putOffVisit,
  SweepLostError,
  type SweepStep,
  settleSweepStep,
} from '../store/polling-sweep.ts';
import type { ListCursor, ListedActivity, ListPage, PageAnswer } from './list-page.ts';

export interface PollDependencies {
  database: Database;
  boss: PgBoss;
  listPage: ListPage;
  logger: Logger;
  metrics: Metrics;
  /** Known activities in a row after which an athlete's list is read no further. */
  stopAfter: number;
  backoff: { baseMs: number; capMs: number };
  random: () => number;
}

/** What a page brought that webhooks should have. */
export interface Drift {
  missed: number;
  changed: number;
  vanished: number;
}

const FIRST_PAGE = 30;
const GIVE_UP_AFTER = 4;
// A webhook may be under way for that long; the provider's list may lag behind a detail for as long.
const SETTLE_MS = 120_000;

/**
 * Reads one page of an athlete's list for the sweep under way. What is unknown, changed or no longer listed
 * is queued with reason `polling`, in the transaction that writes how far the walk came.
 * @throws SweepLostError when another process has taken the sweep over or the athlete was erased; nothing
 * was written
 */
export async function pollAthlete(deps: PollDependencies, step: SweepStep, signal: AbortSignal): Promise<void> {
  const cursor: ListCursor = step.cursor ?? {
    beforeS: Math.floor(step.claimedAt.getTime() / 1000) + 1,
    page: 1,
    boundary: [],
  };
  const perPage = step.cursor ? PER_PAGE : Math.max(FIRST_PAGE, Math.min(PER_PAGE, deps.stopAfter));
  const answer = await deps.listPage({ athleteId: step.athleteId, reason: 'polling', cursor, perPage }, signal);
  switch (answer.kind) {
    case 'wait':
      return putOffSweep(deps.database, step, answer.until);
    case 'refused':
      await endInTransaction(deps, step, false);
      deps.logger.warn('polling passes an athlete over who must connect again', fieldsOf(step, answer.error));
      return;
    case 'failed':
      return pollLater(deps, step, answer.error);
    case 'page': {
      const drift = await deps.database.transaction((tx) => takePage(deps, tx, step, cursor, answer));
      for (const [kind, count] of Object.entries(drift)) if (count > 0) deps.metrics.drift.inc({ kind }, count);
      return;
    }
  }
}

type Page = Extract<PageAnswer, { kind: 'page' }>;

async function takePage(
  deps: PollDependencies,
  tx: Queryable,
  step: SweepStep,
  cursor: ListCursor,
  page: Page,
): Promise<Drift> {
  const connectedAt = await lockListedAthlete(tx, step.athleteId);
  if (!connectedAt) throw new SweepLostError('The athlete was erased while their list was read.');
  const known = await findListed(
    tx,
    page.activities.map(({ activityId }) => activityId),
  );
  const endOfList = page.activities.length === 0 && !page.full;
  const unknown = page.activities.filter((one) => !isKnown(known.get(one.activityId)));
  const changed = await noteDifferences(tx, findChanges(page.activities, known, step.claimedAt));
  const vanished = await findVanished(tx, step, cursor, page, endOfList);
  const fetches = [
    ...unknown.map(({ activityId }) => ({ activityId, force: false })),
    // A vanished activity is asked for once more: the answer 404 removes it.
    ...[...changed, ...vanished].map((activityId) => ({ activityId, force: true })),
  ].map((fetch) => ({ ...fetch, athleteId: step.athleteId, reason: 'polling' as const }));
  await settleSweepStep(tx, step, fetches.length);
  await requestFetches(deps.boss, tx, fetches);
  const run = countKnownInARow(page.activities, known, step.knownInARow);
  const over =
    endOfList ||
    run.longest >= deps.stopAfter ||
    (!page.full && unknown.length === 0 && !(await hasOlderActivity(tx, step.athleteId, page.oldest ?? new Date(0))));
  if (over) await endVisit(tx, step, false);
  else await keepVisit(tx, step, page.next, run.atEnd);
  const missed = unknown.filter((one) => isMissed(one, known.get(one.activityId), connectedAt, step.claimedAt));
  return { missed: missed.length, changed: changed.length, vanished: vanished.length };
}

function isKnown(known: KnownActivity | undefined): boolean {
  if (!known) return false;
  const { stored, tombstoned, job } = known;
  return stored !== undefined || tombstoned || (job !== undefined && (job.open || job.unfetchable));
}

/**
 * Webhooks tell of what ends after the athlete connected, and take a moment. What was asked for before is not
 * missed: it could not be fetched.
 */
function isMissed(
  activity: ListedActivity,
  known: KnownActivity | undefined,
  connectedAt: Date,
  listedAt: Date,
): boolean {
  const endedAt = activity.startDate.getTime() + activity.elapsedTimeS * 1000;
  return endedAt > connectedAt.getTime() && endedAt < listedAt.getTime() - SETTLE_MS && known?.job === undefined;
}

function findChanges(
  activities: readonly ListedActivity[],
  known: ReadonlyMap<Int64, KnownActivity>,
  listedAt: Date,
): Difference[] {
  return activities.flatMap((activity) => {
    const { stored, job } = known.get(activity.activityId) ?? {};
    if (!stored || job?.open || stored.fetchedAt.getTime() > listedAt.getTime() - SETTLE_MS) return [];
    return isSame(activity, stored) ? [] : [{ activityId: activity.activityId, summary: JSON.stringify(activity) }];
  });
}

const METRES_OF_ROUNDING = 0.5;

function isSame(listed: ListedActivity, stored: NonNullable<KnownActivity['stored']>): boolean {
  return (
    listed.name === stored.name &&
    listed.sportType === stored.sportType &&
    listed.startDate.getTime() === stored.startDate.getTime() &&
    Math.abs(listed.distanceM - stored.distanceM) <= METRES_OF_ROUNDING &&
    listed.movingTimeS === stored.movingTimeS &&
    listed.elapsedTimeS === stored.elapsedTimeS &&
    listed.private === stored.private
  );
}

async function findVanished(
  tx: Queryable,
  step: SweepStep,
  cursor: ListCursor,
  page: Page,
  endOfList: boolean,
): Promise<Int64[]> {
  // Only an empty page says that nothing older is there; a short one may have a successor.
  const span = {
    fromS: endOfList ? null : Math.floor((page.oldest?.getTime() ?? 0) / 1000),
    beforeS: cursor.beforeS,
    storedBefore: new Date(step.claimedAt.getTime() - SETTLE_MS),
  };
  const listed = [...page.activities.map(({ activityId }) => activityId), ...cursor.boundary];
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

/**
 * Comes back to an athlete later, and goes on with others meanwhile; after some failures the athlete is
 * given up until the next sweep.
 * @throws SweepLostError as pollAthlete
 */
export async function pollLater(deps: PollDependencies, step: SweepStep, error: string): Promise<void> {
  if (step.failures + 1 >= GIVE_UP_AFTER) {
    await endInTransaction(deps, step, true);
    deps.logger.warn('polling gives an athlete up until the next sweep', fieldsOf(step, error));
    return;
  }
  const delayMs = backoffMs(step.failures, deps.backoff, deps.random());
  await deps.database.transaction(async (tx) => {
    await settleSweepStep(tx, step, 0);
    await putOffVisit(tx, step, delayMs);
  });
  deps.logger.warn('an athlete’s list could not be read; the sweep goes on and comes back', {
    ...fieldsOf(step, error),
    retryInMs: delayMs,
  });
}

async function endInTransaction(deps: PollDependencies, step: SweepStep, gaveUp: boolean): Promise<void> {
  await deps.database.transaction(async (tx) => {
    await settleSweepStep(tx, step, 0);
    await endVisit(tx, step, gaveUp);
  });
}

function fieldsOf(step: SweepStep, error: string) {
  return { component: 'polling', athleteId: step.athleteId, error };
}
