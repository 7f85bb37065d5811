import type { Int64 } from '../domain/int64.ts';
import { REASONS, type Reason } from '../domain/job.ts';
import type { Queryable } from '../infra/database.ts';

/** What a pending job waits for: a free worker, its athlete's cooldown, the budget, or its backoff. */
export const WAIT_CAUSES = ['turn', 'cooldown', 'budget', 'backoff'] as const;
export type WaitCause = (typeof WAIT_CAUSES)[number];

/** Why a pending job does not run now, and until when at least; null: as soon as a worker is free. */
export interface JobWait {
  /** 'pause': an operator has paused fetching for its reason. */
  cause: WaitCause | 'pause';
  until: Date | null;
}

/** Why a job does not run now; undefined when it is not pending. */
export async function findJobWait(database: Queryable, jobId: Int64): Promise<JobWait | undefined> {
  const [row] = await database.query<Record<'budget' | 'cooldown' | 'backoff', Date | null> & { paused: boolean }>(
    `SELECT nullif(greatest(f.start_after, n.now), n.now) AS backoff,
       CASE WHEN NOT (r.aspect = 'delete' AND r.signed) THEN nullif(greatest(s.cooldown_until, n.now), n.now) END AS cooldown,
       CASE WHEN NOT (r.aspect = 'delete' AND r.signed) THEN
         (SELECT nullif(greatest(budget_opens_at(budget_at(b, n.now), r.reason, n.now), n.now), n.now) FROM rate_budget b) END AS budget,
       EXISTS (SELECT FROM fetch_pause p WHERE p.reason IN (r.reason, 'all')) AND NOT (r.aspect = 'delete' AND r.signed) AS paused
     FROM (SELECT sync_now() AS now) n, activity_fetch_job r
     JOIN fetch_queue() f ON f.boss_job_id = r.boss_job_id
     LEFT JOIN athlete_schedule s ON s.athlete_id = r.athlete_id
     WHERE r.id = $1 AND r.outcome IS NULL AND f.waiting`,
    [jobId],
  );
  if (!row) return undefined;
  if (row.paused) return { cause: 'pause', until: null };
  let wait: JobWait = { cause: 'turn', until: null };
  // The latest decides. A job that a 429 released is due when the budget opens, so it waits for the budget.
  for (const cause of ['backoff', 'cooldown', 'budget'] as const) {
    const until = row[cause];
    if (until && until.getTime() >= (wait.until?.getTime() ?? 0)) wait = { cause, until };
  }
  return wait;
}

/** What the pending jobs of one reason wait for. */
export interface WaitsOfReason extends Record<WaitCause, number> {
  /** For how long a job has been due, its athlete's cooldown over as well; the longest, 0 when none is due. */
  oldestDueS: number;
}
export type Waits = Record<Reason, WaitsOfReason>;

/**
 * Counts what all pending jobs wait for. Reads pg-boss's index of waiting jobs once, about 0.1 s for a
 * million of them: not to be read for each request (see paced-read.ts).
 */
export async function countWaits(database: Queryable): Promise<Waits> {
  const rows = await database.query<WaitsOfReason & { reason: Reason }>(WAITS, []);
  const none = { turn: 0, cooldown: 0, budget: 0, backoff: 0, oldestDueS: 0 };
  return Object.fromEntries(
    REASONS.map((reason) => {
      const { reason: _, ...found } = rows.find((row) => row.reason === reason) ?? { ...none, reason };
      return [reason, found];
    }),
  ) as Waits;
}

/** The sum over the reasons. */
export function sumWaits(waits: Waits): Record<WaitCause, number> {
  const sum = { turn: 0, cooldown: 0, budget: 0, backoff: 0 };
  for (const reason of REASONS) for (const cause of WAIT_CAUSES) sum[cause] += waits[reason][cause];
  return sum;
}

// Counted by lane first: within a lane reason, athlete and cooldown are the same. Deletions that need no call count as
// webhook jobs, and wait only for a worker.
const WAITS = `
  WITH at AS MATERIALIZED (
    SELECT n.now, budget_opens_at(b, 'webhook', n.now) AS webhook, budget_opens_at(b, 'manual', n.now) AS manual,
      budget_opens_at(b, 'polling', n.now) AS polling
    FROM (SELECT sync_now() AS now) n, rate_budget stored, budget_at(stored, n.now) b
  ), lanes AS (
    SELECT f.lane, array_agg(f.start_after) FILTER (WHERE f.start_after > at.now) AS later,
      count(*) FILTER (WHERE f.start_after <= at.now) AS due, min(f.start_after) FILTER (WHERE f.start_after <= at.now) AS oldest_due
    FROM at, fetch_queue() f WHERE f.waiting GROUP BY f.lane
  ), causes AS (
    SELECT CASE l.reason WHEN 'delete' THEN 'webhook' ELSE l.reason END AS reason, at.now, w.due, w.later, opens.at AS opens_at,
      CASE WHEN l.reason = 'delete' THEN w.oldest_due
        WHEN w.oldest_due IS NOT NULL AND s.cooldown_until <= at.now THEN greatest(w.oldest_due, s.cooldown_until) END AS oldest_due,
      CASE WHEN greatest(opens.at, s.cooldown_until) <= at.now OR l.reason = 'delete' THEN 'turn'
        WHEN opens.at >= s.cooldown_until THEN 'budget' ELSE 'cooldown' END AS cause
    FROM at, lanes w JOIN lane l ON l.lane = w.lane JOIN athlete_schedule s ON s.athlete_id = l.athlete_id,
      LATERAL (SELECT CASE l.reason WHEN 'manual' THEN at.manual WHEN 'polling' THEN at.polling ELSE at.webhook END AS at) opens
  ), counted AS (
    -- A job that may start only after the budget opens waits for its own next try.
    SELECT c.*, coalesce(b.backoff, 0) AS backoff, c.due + cardinality(coalesce(c.later, '{}')) - coalesce(b.backoff, 0) AS jobs
    FROM causes c, LATERAL (SELECT count(*) AS backoff FROM unnest(c.later) at WHERE at > greatest(c.now, c.opens_at)) b
  )
  SELECT reason,
    coalesce(sum(jobs) FILTER (WHERE cause = 'turn'), 0)::int AS turn,
    coalesce(sum(jobs) FILTER (WHERE cause = 'cooldown'), 0)::int AS cooldown,
    coalesce(sum(jobs) FILTER (WHERE cause = 'budget'), 0)::int AS budget,
    coalesce(sum(backoff), 0)::int AS backoff,
    coalesce(extract(epoch FROM max(now) - min(oldest_due)), 0)::float8 AS "oldestDueS"
  FROM counted GROUP BY reason`;
