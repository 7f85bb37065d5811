import type { Int64 } from '../domain/int64.ts';
import { type Forecast, forecastEnd } from '../domain/sync-forecast.ts';
import type { Database } from '../infra/database.ts';
import { PER_PAGE } from '../provider/client.ts';
import type { Budget, BudgetState } from '../queue/budget.ts';
import { findTokens } from '../store/athletes.ts';
import {
  cancelSync,
  countSyncCost,
  createSync,
  findSync,
  listSyncs,
  type StoredSync,
  type SyncRequest,
} from '../store/syncs.ts';

type Unchanged =
  | 'id'
  | 'athleteId'
  | 'force'
  | 'athletes'
  | 'pages'
  | 'listed'
  | 'queued'
  | 'fetched'
  | 'fetchesFailed'
  | 'error';

/** A manual sync and its progress, as the admin interface and the command line show it. Times are ISO 8601. */
export interface SyncProgress extends Pick<StoredSync, Unchanged> {
  /** `waiting`: running, but nothing can be done before the budget opens or a retry is due. */
  state: StoredSync['state'] | 'waiting';
  after: string | null;
  before: string;
  /** Fetches in all, once every list is read; null before. */
  total: number | null;
  waitingUntil: string | null;
  /** From the budget's pace and the athletes' cooldown, for what is known so far; null when it has ended. */
  expectedEnd: string | null;
  createdAt: string;
  finishedAt: string | null;
}

/** The minimum cost of a sync. Each activity not stored yet costs one more call. */
export interface SyncForecast {
  athletes: number;
  calls: number;
  /** ISO 8601. */
  expectedEnd: string;
}

/** Manual syncs. */
export interface Syncs {
  /** @throws SyncRefusedError when there is no athlete whose list can be read, or `after` is in the future */
  start(request: SyncRequest): Promise<Int64>;
  /** The minimum cost of a sync of all athletes, and when it would end. Changes nothing. */
  forecast(request: Omit<SyncRequest, 'athleteId'>): Promise<SyncForecast>;
  find(id: Int64): Promise<SyncProgress | undefined>;
  /** Newest first. @param beforeId the last one of the page before */
  list(limit: number, beforeId?: Int64): Promise<SyncProgress[]>;
  /** @returns undefined when there is no such sync; false when it had already ended */
  cancel(id: Int64): Promise<boolean | undefined>;
}

/** The sync cannot be started. */
export class SyncRefusedError extends Error {
  override name = 'SyncRefusedError';
  readonly code = 'SYNC_REFUSED';
  /** The athlete is not connected; no list can be read; or the requested time is in the future. */
  readonly why: 'missing' | 'nobody' | 'future';
  constructor(message: string, why: 'missing' | 'nobody' | 'future') {
    super(message);
    this.why = why;
  }
}

export function createSyncs(deps: {
  database: Database;
  budget: Budget;
  now: () => number;
  cooldownMs: number;
}): Syncs {
  const { database, budget } = deps;
  const show = (sync: StoredSync, state: BudgetState) => toProgress(sync, state, deps.now(), deps.cooldownMs);
  return {
    start: async (request) => {
      const afterMs = (request.afterS ?? 0) * 1000;
      if (afterMs > deps.now())
        throw new SyncRefusedError(
          `${new Date(afterMs).toISOString()} is in the future: no activity is newer.`,
          'future',
        );
      const id = await createSync(database, request);
      if (id !== undefined) return id;
      if (request.athleteId === undefined) throw new SyncRefusedError('No connected athlete is healthy.', 'nobody');
      const athlete = await findTokens(database, request.athleteId);
      if (!athlete) throw new SyncRefusedError(`Athlete ${request.athleteId} is not connected.`, 'missing');
      throw new SyncRefusedError(
        `Athlete ${request.athleteId} must reconnect first; their state is ${athlete.state}.`,
        'nobody',
      );
    },
    forecast: async (request) => {
      const [cost, state] = await Promise.all([countSyncCost(database, request, PER_PAGE), budget.read()]);
      const calls = cost.pages + cost.fetches;
      const end = forecast(state, { calls, callsOfBusiestAthlete: cost.busiestAthlete }, deps.now(), deps.cooldownMs);
      return { athletes: cost.athletes, calls, expectedEnd: new Date(end).toISOString() };
    },
    find: async (id) => {
      const [sync, state] = await Promise.all([findSync(database, id), budget.read()]);
      return sync && show(sync, state);
    },
    list: async (limit, beforeId) => {
      const [syncs, state] = await Promise.all([listSyncs(database, limit, beforeId), budget.read()]);
      return syncs.map((sync) => show(sync, state));
    },
    cancel: async (id) => {
      if (await cancelSync(database, id)) return true;
      return (await findSync(database, id)) ? false : undefined;
    },
  };
}

function toProgress(sync: StoredSync, budget: BudgetState, now: number, cooldownMs: number): SyncProgress {
  const running = sync.state === 'running';
  const waitingUntil = running ? waitOf(sync, budget) : null;
  const { state, afterS, beforeS, openItems, busiestAthlete, visits, ...shown } = sync;
  return {
    ...shown,
    state: waitingUntil ? 'waiting' : state,
    after: afterS === null ? null : isoOf(afterS),
    before: isoOf(beforeS),
    total: visits === 0 && state !== 'cancelled' ? sync.queued : null,
    waitingUntil: waitingUntil?.toISOString() ?? null,
    expectedEnd: running ? new Date(forecast(budget, callsLeft(sync), now, cooldownMs)).toISOString() : null,
    createdAt: sync.createdAt.toISOString(),
    finishedAt: sync.finishedAt?.toISOString() ?? null,
  };
}

/** Being paced is running; waiting is for a budget that is closed for longer than its pace, or for a retry. */
function waitOf(sync: StoredSync, budget: BudgetState): Date | null {
  const opens = budget.opensAt.manual;
  if (opens && opens >= budget.windowEnd) return opens;
  if (budget.blockedUntil) return budget.blockedUntil;
  return sync.openItems === 0 ? sync.waitingUntil : null;
}

// The last tenth of a window, and of a day, is kept for webhooks (background_share in sql/functions/budget.sql).
const BACKGROUND_SHARE = 0.9;

type CallsLeft = Pick<Forecast, 'calls' | 'callsOfBusiestAthlete'>;

function callsLeft(sync: StoredSync): CallsLeft {
  // What is queued but not counted as fetched yet, and at least one page of each list that is left.
  const openFetches = Math.max(0, sync.queued - sync.fetched - sync.fetchesFailed);
  return {
    calls: openFetches + sync.visits,
    callsOfBusiestAthlete: sync.athletes.total === 1 ? openFetches : Math.min(openFetches, sync.busiestAthlete),
  };
}

function forecast(budget: BudgetState, left: CallsLeft, now: number, cooldownMs: number): number {
  const { used, limit } = budget.daily;
  const ofDay = limit === null ? undefined : Math.floor(limit * BACKGROUND_SHARE);
  return forecastEnd({
    now,
    opensAt: budget.opensAt.manual?.getTime(),
    windowStart: budget.windowStart.getTime(),
    windowMs: budget.windowEnd.getTime() - budget.windowStart.getTime(),
    callsPerWindow: Math.floor(budget.capacity * BACKGROUND_SHARE),
    callsUsed: budget.backgroundUsed,
    daily: ofDay === undefined ? undefined : { left: Math.max(0, ofDay - used), limit: ofDay },
    ...left,
    cooldownMs,
  });
}

function isoOf(seconds: number): string {
  return new Date(seconds * 1000).toISOString();
}
