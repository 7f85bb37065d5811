import type { Reason } from '../domain/job.ts';
import type { Database } from '../infra/database.ts';

/** What the provider's headers say of the calls that it has counted. */
export interface ProviderUsage {
  /** Calls allowed and spent in the current window. */
  limit: number;
  used: number;
  /** Calls allowed and spent in the current UTC day. */
  dailyLimit: number;
  dailyUsed: number;
}

/** The budget as it is now. */
export interface BudgetState {
  windowStart: Date;
  windowEnd: Date;
  configuredCapacity: number;
  capacity: number;
  used: number;
  left: number;
  backgroundUsed: number;
  /** Set after a 429 until the capacity has recovered. */
  reducedCapacity: number | null;
  blockedUntil: Date | null;
  blockedBy: string | null;
  daily: { used: number; limit: number | null };
  /** When the next call for each reason may be made; null means now. */
  opensAt: Record<Reason, Date | null>;
}

/** The provider's budget, shared by every replica; a row in the database under one advisory lock. */
export interface Budget {
  /** Takes one call. @returns undefined when granted, else when to try again (database time) */
  take(reason: Reason): Promise<Date | undefined>;
  /**
   * Renews a grant whose call did not leave in time: it stays in use if it still counts, otherwise another
   * one is taken.
   * @param grantedAt database time as text, exact to the microsecond
   * @returns as `take` does
   */
  renew(reason: Reason, grantedAt: string): Promise<Date | undefined>;
  /** Corrects the count by the provider's own, from the answer to a call that left `ageMs` ago. */
  correct(usage: ProviderUsage, ageMs: number): Promise<void>;
  /**
   * After a 429: stops every replica for that long, or until the window rollover, and halves the capacity.
   * @returns until when (database time)
   */
  block(waitMs: number | undefined, why: string): Promise<Date>;
  read(): Promise<BudgetState>;
  /** Writes the configured figures where they differ; the newest start wins. */
  configure(figures: { capacity: number; intervalMs: number }): Promise<void>;
}

const CORRECT_EVERY = 10;

/** @param onTake receives the result of each `take` */
export function createBudget(
  database: Database,
  onTake: (reason: Reason, result: 'granted' | 'refused') => void = () => undefined,
): Budget {
  let lastLimits = '';
  let lastUsed = 0;
  return {
    take: async (reason) => {
      const [row] = await database.query<{ opens_at: Date | null }>('SELECT take_budget_at_once($1) AS opens_at', [
        reason,
      ]);
      onTake(reason, row?.opens_at ? 'refused' : 'granted');
      return row?.opens_at ?? undefined;
    },
    renew: async (reason, grantedAt) => {
      const [row] = await database.query<{ opens_at: Date | null; taken: boolean }>(
        'SELECT opens_at, taken FROM renew_grant($1, $2::text::timestamptz)',
        [reason, grantedAt],
      );
      if (row?.taken) onTake(reason, row.opens_at ? 'refused' : 'granted');
      return row?.opens_at ?? undefined;
    },
    correct: async (usage, ageMs) => {
      // Most answers report nothing new: our own call, counted. Unchanged figures are not written again.
      const said = `${usage.limit} ${usage.dailyLimit}`;
      if (said === lastLimits && usage.used <= lastUsed + 1 && usage.used > lastUsed) {
        lastUsed = usage.used;
        if (usage.used % CORRECT_EVERY !== 0) return;
      }
      lastLimits = said;
      lastUsed = usage.used;
      await database.query('SELECT correct_budget($1, $2, $3, $4, $5)', [
        usage.limit,
        usage.used,
        usage.dailyLimit,
        usage.dailyUsed,
        Math.round(ageMs),
      ]);
    },
    block: async (waitMs, why) => {
      const [row] = await database.query<{ until: Date }>('SELECT block_budget($1, $2) AS until', [
        waitMs === undefined ? null : Math.round(waitMs),
        why,
      ]);
      return row?.until ?? new Date();
    },
    configure: async ({ capacity, intervalMs }) => {
      const { guardMs, lagMs } = budgetMargins(intervalMs);
      await database.query(
        `UPDATE rate_budget SET capacity = $1, interval_ms = $2, guard_ms = $3, lag_ms = $4,
           provider_limit = CASE WHEN capacity = $1 THEN provider_limit END
         WHERE (capacity, interval_ms, guard_ms, lag_ms) IS DISTINCT FROM ($1::int, $2::int, $3::int, $4::int)`,
        [capacity, intervalMs, guardMs, lagMs],
      );
    },
    read: async () => toState((await database.query<BudgetRow>(READ, []))[0] as BudgetRow),
  };
}

/**
 * The margins around a window rollover: clocks that differ by up to guardMs, and a call that
 * reaches the provider up to lagMs after its grant. A shorter interval scales both down, as far as the machine is
 * fast enough.
 */
export function budgetMargins(intervalMs: number): { guardMs: number; lagMs: number } {
  return {
    guardMs: Math.min(2000, Math.floor(intervalMs / 450)),
    lagMs: Math.min(1000, Math.max(Math.floor(intervalMs / 900), Math.min(50, Math.floor(intervalMs / 40)))),
  };
}

const DAY_IS_SPENT = 'The provider’s limit for the UTC day is reached.';

const READ = `
  SELECT n.now, b.window_start, b.window_start + b.interval_ms * interval '1 ms' AS window_end, b.capacity AS configured_capacity,
    budget_capacity(b) AS capacity, b.used, b.background_used, b.reduced_capacity, budget_blocked_until(b) AS blocked_until,
    CASE WHEN budget_blocked_until(b) > b.blocked_until THEN '${DAY_IS_SPENT}' ELSE b.blocked_by END AS blocked_by,
    b.daily_used, b.daily_limit, budget_opens_at(b, 'webhook', n.now) AS webhook_opens,
    budget_opens_at(b, 'manual', n.now) AS manual_opens, budget_opens_at(b, 'polling', n.now) AS polling_opens
  FROM (SELECT sync_clock() AS now) n, rate_budget stored, budget_at(stored, n.now) b`;

interface BudgetRow {
  now: Date;
  window_start: Date;
  window_end: Date;
  configured_capacity: number;
  capacity: number;
  used: number;
  background_used: number;
  reduced_capacity: number | null;
  blocked_until: Date | number;
  blocked_by: string | null;
  daily_used: number;
  daily_limit: number | null;
  webhook_opens: Date | number;
  manual_opens: Date | number;
  polling_opens: Date | number;
}

function toState(row: BudgetRow): BudgetState {
  // pg gives -infinity as a number, never as a Date.
  const future = (at: Date | number) => (at instanceof Date && at > row.now ? at : null);
  const blockedUntil = future(row.blocked_until);
  return {
    windowStart: row.window_start,
    windowEnd: row.window_end,
    configuredCapacity: row.configured_capacity,
    capacity: row.capacity,
    used: row.used,
    left: Math.max(0, row.capacity - row.used),
    backgroundUsed: row.background_used,
    reducedCapacity: row.reduced_capacity,
    blockedUntil,
    blockedBy: blockedUntil ? row.blocked_by : null,
    daily: { used: row.daily_used, limit: row.daily_limit },
    opensAt: {
      webhook: future(row.webhook_opens),
      manual: future(row.manual_opens),
      polling: future(row.polling_opens),
    },
  };
}
