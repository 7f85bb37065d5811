import type { Activity } from '../domain/activity.ts';
import type { Int64 } from '../domain/int64.ts';
import type { Reason } from '../domain/job.ts';
import type { Database } from '../infra/database.ts';
import type { Logger } from '../infra/logger.ts';
import type { Metrics } from '../infra/metrics.ts';
import { PER_PAGE, type Provider } from '../provider/client.ts';
import { ProviderError } from '../provider/errors.ts';
import type { ActivitySummary } from '../provider/schemas.ts';
import type { Budget } from '../queue/budget.ts';
import { findTokens, lockTokens, setAthleteState } from '../store/athletes.ts';
import type { ListCursor } from '../store/list-walks.ts';
import type { NewSyncItem } from '../store/sync-items.ts';
import { type AccessTokens, ReconnectError } from './access-token.ts';
import { stopForThrottle } from './throttled.ts';
import { toActivity } from './to-activity.ts';

/** An activity as the list shows it. */
export type ListedActivity = Omit<Activity, 'startDate'> & { startDate: Date };

/** `activities` newest first, without those seen before; `full` when as many came as were requested. */
export interface ListedPage {
  activities: ListedActivity[];
  oldest: Date | undefined;
  full: boolean;
  next: ListCursor;
}

/** Only an empty page ends a list: a short one may have a successor. */
export const endsList = ({ activities, full }: ListedPage): boolean => activities.length === 0 && !full;

/** What a walk does with a page. */
export interface PageDecision {
  fetches: { activityId: Int64; force: boolean }[];
  /** The fetches that a manual sync waits for. */
  items?: NewSyncItem[];
  listed: number;
  /** The athlete's list is read no further. */
  isOver: boolean;
  knownInARow: number;
  /** What webhooks should have brought. */
  drift?: Record<'missed' | 'changed' | 'vanished', number>;
}

/** The result of requesting one page. */
export type PageAnswer =
  | ({ kind: 'page' } & ListedPage)
  /** The budget is closed for this reason until then. */
  | { kind: 'wait'; until: Date }
  /** The athlete must reconnect, and is shown as such. */
  | { kind: 'refused'; error: string }
  /** No usable answer; a retry may work. */
  | { kind: 'failed'; error: string };

/**
 * Requests one page of an athlete's list, out of the shared budget. A rejected token is refreshed once; a
 * second 401 shows the athlete as `reconnect`, a 403 as `scope`; a 429 stops every replica. Makes no call for
 * an athlete who is not healthy. Throws when the signal aborts the call.
 * @param perPage PER_PAGE, or fewer for the first page
 */
export type ListPage = (
  request: { athleteId: Int64; reason: Exclude<Reason, 'webhook'>; cursor: ListCursor; perPage: number },
  signal: AbortSignal,
) => Promise<PageAnswer>;

export interface ListDependencies {
  database: Database;
  provider: Provider;
  accessTokens: AccessTokens;
  budget: Budget;
  logger: Logger;
  metrics: Metrics;
}

export function createListPage(deps: ListDependencies): ListPage {
  return async (request, signal) => {
    const { athleteId } = request;
    const tokens = await findTokens(deps.database, athleteId);
    if (tokens && tokens.state !== 'healthy')
      return { kind: 'refused', error: `The athlete's state is ${tokens.state}. Reconnect them first.` };
    try {
      const token = await deps.accessTokens.get(athleteId, tokens);
      return await callForPage(deps, request, token, signal).catch(async (error: unknown) => {
        if (!(error instanceof ProviderError && error.code === 'UNAUTHORIZED')) throw error;
        const fresh = await deps.accessTokens.get(athleteId, undefined, token);
        return callForPage(deps, request, fresh, signal);
      });
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof ReconnectError) return { kind: 'refused', error: error.message };
      if (!(error instanceof ProviderError)) throw error;
      switch (error.code) {
        case 'THROTTLED':
          return { kind: 'wait', until: await stopForThrottle(deps, error, error.message) };
        case 'UNAUTHORIZED':
          return refuse(deps, athleteId, tokens?.connectedAt, 'reconnect', `${error.message} ${REJECTED_TWICE}`);
        case 'FORBIDDEN':
          return refuse(deps, athleteId, tokens?.connectedAt, 'scope', `${error.message} ${INSUFFICIENT_SCOPE}`);
        default:
          return { kind: 'failed', error: error.message };
      }
    }
  };
}

const REJECTED_TWICE = 'The token is rejected even after a refresh: reconnect the athlete.';
const INSUFFICIENT_SCOPE =
  'Insufficient scope to list activities: reconnect the athlete, and allow their activities to be read.';

async function callForPage(
  deps: ListDependencies,
  request: Parameters<ListPage>[0],
  token: string,
  signal: AbortSignal,
): Promise<PageAnswer> {
  const { reason, perPage, cursor } = request;
  const until = await deps.budget.take(reason);
  if (until) return { kind: 'wait', until };
  const page = { before: cursor.beforeS, page: cursor.page, perPage };
  return readPage(request, await deps.provider.listActivities(token, page, signal));
}

/**
 * Shows the athlete in the state, unless they connected in the meantime.
 * @param connectedAt when they had last connected as the list was requested
 */
async function refuse(
  deps: ListDependencies,
  athleteId: Int64,
  connectedAt: string | undefined,
  state: 'reconnect' | 'scope',
  error: string,
): Promise<PageAnswer> {
  deps.metrics.authorisationFailures.inc({ code: state === 'scope' ? '403' : '401' });
  return deps.database.transaction(async (tx): Promise<PageAnswer> => {
    await lockTokens(tx, athleteId); // an athlete who is just connecting waits, or is seen
    const athlete = await findTokens(tx, athleteId);
    if (athlete && athlete.connectedAt !== connectedAt)
      return { kind: 'failed', error: 'The athlete reconnected while their list was read.' };
    await setAthleteState(tx, athleteId, state, error);
    return { kind: 'refused', error };
  });
}

function readPage(
  { athleteId, cursor, perPage }: Parameters<ListPage>[0],
  summaries: readonly ActivitySummary[],
): PageAnswer {
  const seen = new Set(cursor.boundary);
  const listed = summaries
    .map((one) => ({ ...toActivity({ activityId: one.id, athleteId }, one), startDate: new Date(one.start_date) }))
    .sort((a, b) => b.startDate.getTime() - a.startDate.getTime());
  return {
    kind: 'page',
    activities: listed.filter(({ activityId }) => !seen.has(activityId)),
    oldest: listed.at(-1)?.startDate,
    full: summaries.length >= perPage,
    next: nextCursor(cursor, listed, perPage),
  };
}

/**
 * Where the list continues after a page. The bound is one second above the oldest start, so that others of
 * that second are listed too.
 */
export function nextCursor(
  cursor: ListCursor,
  listed: readonly Pick<ListedActivity, 'activityId' | 'startDate'>[],
  perPage: number,
): ListCursor {
  if (listed.length === 0) return cursor;
  const secondOf = ({ startDate }: { startDate: Date }) => Math.floor(startDate.getTime() / 1000);
  const oldestS = Math.min(...listed.map(secondOf));
  const ofOldestSecond = listed.filter((one) => secondOf(one) === oldestS).map(({ activityId }) => activityId);
  if (oldestS + 1 < cursor.beforeS) return { beforeS: oldestS + 1, page: 1, boundary: ofOldestSecond };
  return {
    beforeS: cursor.beforeS,
    // Page numbers count in whole pages: a smaller first page is requested again in full.
    page: perPage < PER_PAGE ? 1 : cursor.page + 1,
    boundary: [...new Set([...cursor.boundary, ...ofOldestSecond])],
  };
}
