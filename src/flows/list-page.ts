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
import { type AccessTokens, ReconnectError } from './access-token.ts';
import { stopForThrottle } from './throttled.ts';

/**
 * Where a walk through an athlete's list stands. The next page is asked for by the oldest start seen, not
 * by number: activities that come or go meanwhile shift nothing.
 */
export interface ListCursor {
  /** Upper bound of the page, epoch seconds, exclusive. */
  beforeS: number;
  /** Counts on only while activities that start in one and the same second fill a page. */
  page: number;
  /** Activities of the second at the bound, which were on the page before already. */
  boundary: readonly Int64[];
}

/** An activity as the list shows it. */
export interface ListedActivity {
  activityId: Int64;
  startDate: Date;
  name: string;
  sportType: string;
  distanceM: number;
  movingTimeS: number;
  elapsedTimeS: number;
  private: boolean;
}

/** What came of asking for one page. */
export type PageAnswer =
  /** `activities` newest first, without those seen before; `full` when as many came as were asked for. */
  | { kind: 'page'; activities: ListedActivity[]; oldest: Date | undefined; full: boolean; next: ListCursor }
  /** Nobody may call the provider for this reason before then. */
  | { kind: 'wait'; until: Date }
  /** The athlete must connect again, and is shown so. */
  | { kind: 'refused'; error: string }
  /** No usable answer just now. */
  | { kind: 'failed'; error: string };

/**
 * Asks for one page of an athlete's list, out of the shared budget. A rejected token is refreshed once; a
 * second 401, or a 403, shows the athlete as needing to reconnect; a 429 stops everyone. Throws when the
 * signal aborts the call.
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
    let connectedAt: string | undefined;
    try {
      const tokens = await findTokens(deps.database, request.athleteId);
      connectedAt = tokens?.connectedAt;
      const token = await deps.accessTokens.get(request.athleteId, tokens);
      let answer = await callForPage(deps, request, token, signal);
      if (answer === 'rejected') {
        const fresh = await deps.accessTokens.get(request.athleteId, undefined, token);
        answer = await callForPage(deps, request, fresh, signal);
      }
      if (answer === 'rejected') return await showReconnect(deps, request.athleteId, connectedAt, 401, REJECTED_TWICE);
      return answer;
    } catch (error) {
      signal.throwIfAborted();
      return await answerOfError(deps, request.athleteId, connectedAt, error);
    }
  };
}

const REJECTED_TWICE = 'The provider refuses the list of activities also with a fresh token (401).';

async function callForPage(
  deps: ListDependencies,
  request: Parameters<ListPage>[0],
  token: string,
  signal: AbortSignal,
): Promise<PageAnswer | 'rejected'> {
  const { cursor, perPage } = request;
  const until = await deps.budget.take(request.reason);
  if (until) return { kind: 'wait', until };
  try {
    const page = { before: cursor.beforeS, page: cursor.page, perPage };
    return readPage(cursor, await deps.provider.listActivities(token, page, signal), perPage);
  } catch (error) {
    if (error instanceof ProviderError && error.code === 'UNAUTHORIZED') return 'rejected';
    throw error;
  }
}

async function answerOfError(
  deps: ListDependencies,
  athleteId: Int64,
  connectedAt: string | undefined,
  error: unknown,
): Promise<PageAnswer> {
  if (error instanceof ReconnectError) return { kind: 'refused', error: error.message };
  if (!(error instanceof ProviderError)) throw error;
  switch (error.code) {
    case 'THROTTLED':
      return { kind: 'wait', until: await stopForThrottle(deps, error, error.message) };
    case 'UNAUTHORIZED':
    case 'FORBIDDEN':
      return showReconnect(deps, athleteId, connectedAt, error.status ?? 403, error.message);
    default:
      return { kind: 'failed', error: error.message };
  }
}

/** @param connectedAt when the athlete had last connected as the list was asked for */
async function showReconnect(
  deps: ListDependencies,
  athleteId: Int64,
  connectedAt: string | undefined,
  status: number,
  error: string,
): Promise<PageAnswer> {
  deps.metrics.authorisationFailures.inc({ code: String(status) });
  return deps.database.transaction(async (tx): Promise<PageAnswer> => {
    await lockTokens(tx, athleteId); // an athlete who connects just now waits, or is seen
    const athlete = await findTokens(tx, athleteId);
    if (athlete && athlete.connectedAt !== connectedAt)
      return { kind: 'failed', error: 'The athlete connected again while their list was asked for.' };
    await setAthleteState(tx, athleteId, 'reconnect', error);
    return { kind: 'refused', error };
  });
}

function readPage(cursor: ListCursor, summaries: readonly ActivitySummary[], perPage: number): PageAnswer {
  const seen = new Set(cursor.boundary);
  const listed = summaries.map(toListed).sort((a, b) => b.startDate.getTime() - a.startDate.getTime());
  return {
    kind: 'page',
    activities: listed.filter(({ activityId }) => !seen.has(activityId)),
    oldest: listed.at(-1)?.startDate,
    full: summaries.length >= perPage,
    next: nextCursor(cursor, listed, perPage),
  };
}

/**
 * Where the list goes on after a page. The bound is one second above the oldest start, so that others of
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
    // Page numbers count in whole pages: a smaller first page is asked for again in full.
    page: perPage < PER_PAGE ? 1 : cursor.page + 1,
    boundary: [...new Set([...cursor.boundary, ...ofOldestSecond])],
  };
}

function toListed(summary: ActivitySummary): ListedActivity {
  return {
    activityId: summary.id,
    startDate: new Date(summary.start_date),
    name: summary.name,
    sportType: summary.sport_type ?? summary.type ?? 'Unknown',
    distanceM: summary.distance,
    movingTimeS: Math.round(summary.moving_time),
    elapsedTimeS: Math.round(summary.elapsed_time),
    private: summary.private,
  };
}
