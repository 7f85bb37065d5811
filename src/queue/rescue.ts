import type { PgBoss } from 'pg-boss';
import type { Database, Queryable } from '../infra/database.ts';
import { isUnavailable } from '../infra/database-errors.ts';
import type { Logger } from '../infra/logger.ts';
import { lockKnownAthletes } from './athlete-locks.ts';
import { ClaimLostError } from './claims.ts';
import type { Completer } from './completer.ts';
import { reopenJobs } from './requests.ts';
import type { FindDead } from './rescue-dead.ts';
import type { Settlement } from './settlement.ts';
import type { ClaimedRun } from './write-settlements.ts';

/** Why a running job is rescued. */
export type RescueCause = 'dead' | 'stale' | 'lost';

export interface RescueDependencies {
  database: Database;
  completer: Completer;
  logger: Logger;
  staleAfterMs: number;
  /** This process; undefined until it is registered. */
  processId: () => number | undefined;
  findDead: FindDead;
  /** The pg-boss jobs that this process knows it claimed, and has not settled. */
  inHand: () => ReadonlySet<string>;
}

/** One pass. @returns how many jobs of each cause were rescued; one that fails is left to the next pass */
export type RescueRuns = () => Promise<Record<RescueCause, number>>;

/**
 * Rescues the running jobs that no worker will settle: those of a dead worker, stale ones, and those that this process
 * claimed without knowing it, because the answer was lost with the connection.
 */
export function createRescueRuns(deps: RescueDependencies): RescueRuns {
  // Claimed by this process but not running here: lost if the next pass finds the same, and not a claim in progress.
  let unknown: ReadonlySet<string> = new Set();
  return async () => {
    const { rescued, unknownNow } = await rescueOnce(deps, unknown);
    unknown = unknownNow;
    return rescued;
  };
}

async function rescueOnce(
  deps: RescueDependencies,
  unknown: ReadonlySet<string>,
): Promise<{ rescued: Record<RescueCause, number>; unknownNow: ReadonlySet<string> }> {
  const rescued = { dead: 0, stale: 0, lost: 0 };
  const running = await deps.database.query<RunningRow>(RUNNING, [deps.staleAfterMs]);
  const own = deps.processId();
  const others = new Set(
    running.flatMap(({ process_id }) => (process_id === null || process_id === own ? [] : [process_id])),
  );
  const dead = new Set(await deps.findDead([...others]));
  const inHand = deps.inHand();
  const unknownNow = new Set(
    running.filter((row) => row.process_id === own && !inHand.has(row.boss_job_id)).map((row) => row.boss_job_id),
  );
  for (const row of running) {
    const isLost = unknownNow.has(row.boss_job_id) && unknown.has(row.boss_job_id);
    const isDead = row.process_id !== null && dead.has(row.process_id);
    const cause = isLost ? 'lost' : isDead ? 'dead' : row.stale ? 'stale' : undefined;
    if (cause && (await rescue(deps, row, cause))) rescued[cause] += 1;
  }
  return { rescued, unknownNow };
}

interface RunningRow {
  boss_job_id: string;
  retry_count: number;
  attempts: number;
  job_id: string;
  activity_id: string;
  athlete_id: string;
  started_at: string;
  version: number;
  reclaims: number;
  process_id: number | null;
  stale: boolean;
}

const RUNNING = `
  SELECT f.boss_job_id, f.retry_count, f.attempts, r.id AS job_id, r.activity_id, r.athlete_id,
    f.started_on::text AS started_at, coalesce(c.version, r.version) AS version, r.reclaims, c.process_id,
    f.started_on < sync_now() - $1 * interval '1 ms' AS stale
  FROM fetch_queue() f
  JOIN activity_fetch_job r ON r.activity_id = f.activity_id AND r.boss_job_id = f.boss_job_id
  LEFT JOIN job_claim c ON c.boss_job_id = f.boss_job_id
  WHERE f.running
  ORDER BY f.started_on LIMIT 1000`;

const ERRORS: Record<RescueCause, string> = {
  dead: 'The worker process died during the run; the job was reclaimed.',
  stale: 'The worker did not finish in time; the job was reclaimed as stale.',
  lost: 'The database connection broke before the worker received its claim; the job was released.',
};

function toSettlement(row: RunningRow, cause: RescueCause): Settlement {
  const error = ERRORS[cause];
  if (cause === 'lost') return { kind: 'release', error, lastCall: 'none' };
  return {
    kind: 'retry',
    error,
    reclaimed: true,
    // The first time at once; from then on a job that kills its process waits for the backoff.
    ...(row.reclaims === 0 ? { delayMs: 0 } : {}),
    // A dead worker makes no more calls. A stale one may still be calling: its hold on the athlete continues.
    ...(cause === 'dead' ? { lastCall: { at: performance.now() } } : {}),
  };
}

async function rescue(deps: RescueDependencies, row: RunningRow, cause: RescueCause): Promise<boolean> {
  const run: ClaimedRun = {
    bossJobId: row.boss_job_id,
    retryCount: row.retry_count,
    attempts: row.attempts,
    jobId: row.job_id,
    activityId: row.activity_id,
    athleteId: row.athlete_id,
    athleteState: undefined,
    version: row.version,
    startedAt: row.started_at,
  };
  try {
    await deps.completer.settle(run, toSettlement(row, cause), { until: performance.now() });
    return true;
  } catch (error) {
    // It was settled, or rescued by another replica, in the meantime.
    if (error instanceof ClaimLostError) return false;
    if (!isUnavailable(error)) throw error;
    deps.logger.warn('job not reclaimed, retrying in the next pass', {
      component: 'fetch',
      jobId: row.job_id,
      error: error.message,
    });
    return false;
  }
}

const EXPIRED = `
  SELECT r.id, r.athlete_id, coalesce(f.started_on, f.changed_on)::text AS started_at, coalesce(c.version <> r.version, false) AS moved,
    coalesce(f.error, 'pg-boss has ended the job.') AS error
  FROM fetch_queue() f
  JOIN activity_fetch_job r ON r.activity_id = f.activity_id AND r.boss_job_id = f.boss_job_id
  LEFT JOIN job_claim c ON c.boss_job_id = f.boss_job_id
  WHERE f.ended AND r.outcome IS NULL`;

/**
 * Ends the requests whose jobs pg-boss has ended, as it does with a run of more than a day that has no retry
 * left. Happens only when no worker has rescued stale runs for that long. Reads the whole queue.
 * @returns how many
 */
export async function endExpiredRuns(database: Database, boss: PgBoss): Promise<number> {
  const expired = await database.query<ExpiredRow>(`${EXPIRED} LIMIT 1000`, []);
  let ended = 0;
  for (const row of expired) if (await database.transaction((tx) => endExpired(boss, tx, row))) ended += 1;
  return ended;
}

interface ExpiredRow {
  id: string;
  athlete_id: string;
  started_at: string;
  moved: boolean;
  error: string;
}

async function endExpired(boss: PgBoss, tx: Queryable, { id, athlete_id }: ExpiredRow): Promise<boolean> {
  await lockKnownAthletes(tx, [athlete_id]);
  const [row] = await tx.query<ExpiredRow>(`${EXPIRED} AND r.id = $1 FOR UPDATE OF r`, [id]);
  if (!row) return false; // requested again, or deleted, in the meantime
  await tx.query(`UPDATE activity_fetch_job SET outcome = 'exhausted' WHERE id = $1`, [id]);
  await tx.query('INSERT INTO fetch_attempt (job_id, started_at, result, outcome, error) VALUES ($1, $2, $3, $4, $5)', [
    id,
    row.started_at,
    'failed',
    'exhausted',
    row.error,
  ]);
  if (row.moved) await reopenJobs(boss, tx, [id]);
  return true;
}

/** Removes claims of jobs that are no longer running: deleted manually, or given up by pg-boss. */
export async function removeOrphanedClaims(database: Queryable): Promise<void> {
  await database.query(
    `DELETE FROM job_claim c WHERE NOT EXISTS (SELECT FROM fetch_queue() f WHERE f.boss_job_id = c.boss_job_id AND f.running)
       AND NOT EXISTS (SELECT FROM thumbnail_queue() t WHERE t.boss_job_id = c.boss_job_id AND t.running)
       AND NOT EXISTS (SELECT FROM delivery_queue() d WHERE d.boss_job_id = c.boss_job_id AND d.running)`,
    [],
  );
}

/**
 * Wakes lanes whose due time was lost, and ends cooldowns that are longer than any can be: a clock that was ahead and
 * has been set back began them.
 * @param longestMs for how long an athlete is kept from a fetch at most; an hour is left to replicas configured otherwise
 * @returns how many lanes; more than none is worth a warning
 */
export async function wakeForgottenLanes(database: Queryable, longestMs: number): Promise<number> {
  await database.query(
    `UPDATE athlete_schedule SET cooldown_until = '-infinity' WHERE athlete_id IN (
       SELECT athlete_id FROM athlete_schedule WHERE cooldown_until > sync_now() + $1 * interval '1 ms' + interval '1 hour' FOR UPDATE SKIP LOCKED)`,
    [longestMs],
  );
  const [row] = await database.query<{ woken: number }>('SELECT wake_forgotten_lanes() AS woken', []);
  return row?.woken ?? 0;
}
