import type { PgBoss } from 'pg-boss';
import { backoffMs } from '../domain/backoff.ts';
import { MAX_ATTEMPTS } from '../domain/job.ts';
import type { Database, Queryable } from '../infra/database.ts';
import type { Logger } from '../infra/logger.ts';
import type { Metrics } from '../infra/metrics.ts';
import { PER_PAGE } from '../provider/client.ts';
import { requestFetches } from '../queue/requests.ts';
import { recordRequests } from '../store/fetch-requests.ts';
import {
  endVisit,
  keepVisit,
  type PageStep,
  releaseWalk,
  settlePage,
  snoozeVisit,
  type WalkClaim,
  WalkLostError,
} from '../store/list-walks.ts';
import { lockListedAthlete } from '../store/listed-activities.ts';
import { addSyncItems } from '../store/sync-items.ts';
import type { ListedPage, ListPage, PageDecision } from './list-page.ts';
import { pollPage } from './poll-page.ts';
import { syncPage } from './sync-page.ts';

export interface WalkDependencies {
  database: Database;
  boss: PgBoss;
  listPage: ListPage;
  logger: Logger;
  metrics: Metrics;
  /** Known activities in a row after which a sweep stops reading an athlete's list. */
  stopAfter: number;
  backoff: { baseMs: number; capMs: number };
  random: () => number;
}

// A sweep seldom needs more: most of what it reads is known.
const FIRST_PAGE_OF_SWEEP = 30;
/** Failures in a row after which a walk continues without the athlete. */
const GIVE_UP_AFTER = { polling: 4, manual: MAX_ATTEMPTS + 1 };

/**
 * Reads one page of an athlete's list for a sweep or a manual sync. The fetches are requested in the
 * transaction that writes how far the walk came, so a process that dies at any point requests none twice.
 * @throws WalkLostError when the claim was lost, the sync cancelled or the athlete erased; nothing was written
 */
export async function walkList(deps: WalkDependencies, step: PageStep, signal: AbortSignal): Promise<void> {
  const { athleteId, kind, cursor } = step;
  const perPage =
    kind === 'polling' && step.isFirst ? Math.max(FIRST_PAGE_OF_SWEEP, Math.min(PER_PAGE, deps.stopAfter)) : PER_PAGE;
  const answer = await deps.listPage({ athleteId, reason: kind, cursor, perPage }, signal);
  switch (answer.kind) {
    case 'wait':
      return releaseWalk(deps.database, step, answer.until);
    case 'refused':
      // Says nothing about the sweep: it counts as failed when it gives up many athletes.
      await giveUp(deps, step, answer.error, kind === 'manual' ? 1 : 0);
      deps.logger.warn('athlete skipped, reconnect required', fieldsOf(step, answer.error));
      return;
    case 'failed':
      return retryPage(deps, step, answer.error);
    case 'page': {
      const { drift } = await deps.database.transaction((tx) => takePage(deps, tx, step, answer));
      for (const [drifted, count] of Object.entries(drift ?? {}))
        if (count > 0) deps.metrics.drift.inc({ kind: drifted }, count);
    }
  }
}

async function takePage(
  deps: WalkDependencies,
  tx: Queryable,
  step: PageStep,
  page: ListedPage,
): Promise<PageDecision> {
  const connectedAt = await lockListedAthlete(tx, step.athleteId);
  if (!connectedAt) throw new WalkLostError('The athlete was erased while their list was read.');
  const decision =
    step.kind === 'polling'
      ? await pollPage(tx, step, page, { connectedAt, stopAfter: deps.stopAfter })
      : await syncPage(tx, step, page);
  const { fetches, items = [], listed, isOver, knownInARow } = decision;
  await settlePage(tx, step, { pages: 1, listed, queued: fetches.length, athletesListed: isOver ? 1 : 0 });
  const requested = await requestFetches(
    deps.boss,
    tx,
    fetches.map((fetch) => ({ ...fetch, athleteId: step.athleteId, reason: step.kind })),
  );
  await recordRequests(
    tx,
    requested.map(({ jobId }) => jobId),
    step.kind === 'polling' ? { kind: 'polling' } : { kind: 'sync', source: step.walkId },
  );
  await addSyncItems(tx, step.walkId, items);
  await (isOver ? endVisit(tx, step) : keepVisit(tx, step, page.next, knownInARow));
  return decision;
}

/**
 * Retries the page after a wait, and continues with others; after some failures in a row the walk gives up on
 * the athlete.
 * @throws WalkLostError as walkList
 */
export async function retryPage(deps: WalkDependencies, step: PageStep, error: string): Promise<void> {
  if (step.failures + 1 >= GIVE_UP_AFTER[step.kind]) {
    await giveUp(deps, step, error, 1);
    deps.logger.warn('athlete given up, list not read', fieldsOf(step, error));
    return;
  }
  const delayMs = backoffMs(step.failures, deps.backoff, deps.random());
  await deps.database.transaction(async (tx) => {
    await snoozeVisit(tx, step, delayMs);
    await settlePage(tx, step, { error: `Athlete ${step.athleteId}: ${error}` });
  });
  deps.logger.warn('list not read, athlete snoozed', { ...fieldsOf(step, error), retryInMs: delayMs });
}

async function giveUp(deps: WalkDependencies, step: PageStep, error: string, athletesFailed: 0 | 1): Promise<void> {
  await deps.database.transaction(async (tx) => {
    await endVisit(tx, step);
    await settlePage(tx, step, { error: `Athlete ${step.athleteId}: ${error}`, athletesFailed });
  });
}

/** The component that logs and metrics name for a walk. */
export function componentOf({ kind }: WalkClaim): 'polling' | 'sync' {
  return kind === 'polling' ? 'polling' : 'sync';
}

function fieldsOf(step: PageStep, error: string) {
  return { component: componentOf(step), walkId: step.walkId, athleteId: step.athleteId, error };
}
