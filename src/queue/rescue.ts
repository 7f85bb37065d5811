import type { PgBoss } from 'pg-boss';
import { backoffMs } from '../domain/backoff.ts';
import type { Database, Queryable } from '../infra/database.ts';
import { isDatabaseAway, isLockTimeout } from '../infra/database-errors.ts';
import { reopenJobs } from './requests.ts';
import { type ClaimedRun, putBackRun, recordAttempt, retryRun, SupersededError } from './settle.ts';

// Somebody has locked that athlete or job for longer than any of us does: the others come first.
const LOCK_TIMEOUT_MS = 1000;

// Whether somebody asked during the run: by its name, since a request may have begun before it, and waited.
const IS_ASKED_ANEW = 'coalesce(r.asked_during = run_name(f.boss_job_id, f.retry_count), false)';

/** How many were taken from runs that are over, and why not all, where one could not be. */
export interface Taken {
  taken: number;
  problem: Error | undefined;
}

/**
 * Takes back the jobs that have been in `working` for too long: their worker died, or is so slow that
 * its result would be refused. Counts as an attempt.
 */
export async function rescueStaleRuns(
  database: Database,
  boss: PgBoss,
  options: { staleAfterMs: number; baseMs: number; capMs: number; random: () => number },
): Promise<Taken> {
  const stale = await database.query<TakenRow>(
    `SELECT f.boss_job_id, f.retry_count, f.attempts, r.id AS job_id, f.started_on::text AS started_at,
       r.version - (${IS_ASKED_ANEW})::int AS version
     FROM fetch_queue() f JOIN activity_fetch_job r ON r.activity_id = f.activity_id AND r.boss_job_id = f.boss_job_id
     WHERE f.running AND f.started_on < sync_now() - $1 * interval '1 ms'
     ORDER BY f.started_on LIMIT 1000`,
    [options.staleAfterMs],
  );
  const error = `The worker did not finish within ${options.staleAfterMs} ms; the job was taken back.`;
  return takeEach(database, stale, (tx, run) =>
    retryRun(boss, tx, run, error, backoffMs(run.attempts, options, options.random())),
  );
}

/**
 * Ends the requests whose jobs pg-boss has ended by itself: after a day it takes a run for dead, and where no retry is
 * left nobody would hear of it. Happens only where no worker took stale runs back meanwhile. Reads the whole queue.
 * @returns how many
 */
export async function endExpiredRuns(database: Database): Promise<number> {
  const expired = await database.query<{ job_id: string }>(
    `SELECT r.id AS job_id FROM fetch_queue() f JOIN activity_fetch_job r ON r.activity_id = f.activity_id AND r.boss_job_id = f.boss_job_id
     WHERE f.ended AND r.outcome IS NULL LIMIT 1000`,
    [],
  );
  let ended = 0;
  for (const { job_id } of expired) if (await database.transaction((tx) => endExpired(tx, job_id))) ended += 1;
  return ended;
}

async function endExpired(tx: Queryable, jobId: string): Promise<boolean> {
  await tx.query(
    'SELECT FROM athlete_schedule WHERE athlete_id = (SELECT athlete_id FROM activity_fetch_job WHERE id = $1) FOR UPDATE',
    [jobId],
  );
  const [run] = await tx.query<{ started_at: string; moved: boolean; error: string }>(
    `UPDATE activity_fetch_job r SET outcome = 'exhausted' FROM fetch_queue() f
     WHERE r.id = $1 AND r.outcome IS NULL AND f.boss_job_id = r.boss_job_id AND f.ended
     RETURNING coalesce(f.started_on, f.changed_on)::text AS started_at, ${IS_ASKED_ANEW} AS moved,
       coalesce(f.error, 'pg-boss has ended the job.') AS error`,
    [jobId],
  );
  if (!run) return false; // asked for anew, or deleted, between the look and the lock
  await recordAttempt(tx, { jobId, startedAt: run.started_at }, 'failed', run.error);
  if (run.moved) await reopenJobs(tx, [jobId]);
  return true;
}

/**
 * Puts the jobs back that were claimed for nobody, since the answer to the claim was lost. Counts no attempt,
 * and ends the cooldown that the claim began: nobody was called.
 * @param marks under which they were claimed
 * @returns how many were put back
 * @throws when one could not be, after the others
 */
export async function putBackLostRuns(database: Database, boss: PgBoss, marks: readonly string[]): Promise<number> {
  const lost = await database.query<TakenRow>('SELECT * FROM lost_runs($1)', [marks]);
  const error = 'The connection to the database broke before the worker heard of its claim; the job was put back.';
  const { taken, problem } = await takeEach(database, lost, (tx, run) =>
    putBackRun(boss, tx, run, error, undefined, { cooldownMs: 0, answeredAgoMs: 0 }),
  );
  if (problem) throw problem;
  return taken;
}

/**
 * Ends each run that has not ended otherwise meanwhile, in a transaction of its own. One that cannot be ended just
 * now keeps no other from it.
 * @throws when the database goes away
 */
async function takeEach(
  database: Database,
  rows: readonly TakenRow[],
  end: (tx: Queryable, run: ClaimedRun) => Promise<unknown>,
): Promise<Taken> {
  let taken = 0;
  let problem: Error | undefined;
  for (const row of rows) {
    const run: ClaimedRun = {
      bossJobId: row.boss_job_id,
      retryCount: row.retry_count,
      attempts: row.attempts,
      jobId: row.job_id,
      version: row.version, // one less than the newest when requests came after the claim
      startedAt: row.started_at,
    };
    try {
      await database.transaction(async (tx) => {
        await tx.query(`SET LOCAL lock_timeout = ${LOCK_TIMEOUT_MS}`);
        await end(tx, run);
      });
      taken += 1;
    } catch (error) {
      // It finished, or another replica took it back, between the look and the lock.
      if (error instanceof SupersededError) continue;
      if (isDatabaseAway(error) && !isLockTimeout(error)) throw error;
      problem ??= error as Error;
    }
  }
  return { taken, problem };
}

interface TakenRow {
  boss_job_id: string;
  retry_count: number;
  attempts: number;
  job_id: string;
  started_at: string;
  version: number;
}

/**
 * Wakes lanes whose due time was lost, or lies behind a cooldown that cannot be.
 * @param longestMs for how long an athlete is kept from a fetch at most
 * @returns how many; more than none is worth a warning
 */
export async function wakeForgottenLanes(database: Queryable, longestMs: number): Promise<number> {
  const [row] = await database.query<{ woken: number }>('SELECT wake_forgotten_lanes($1) AS woken', [longestMs]);
  return row?.woken ?? 0;
}
