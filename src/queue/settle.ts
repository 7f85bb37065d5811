import type { PgBoss } from 'pg-boss';
import { MAX_ATTEMPTS, type Outcome } from '../domain/job.ts';
import { FETCH_QUEUE } from '../infra/boss.ts';
import type { Queryable } from '../infra/database.ts';
import type { Run } from './claim.ts';
import { DELETION_LANE, reopenJobs } from './requests.ts';

/** The run no longer holds its job (taken back as stale, or deleted): its result must not be written. */
export class SupersededError extends Error {
  override name = 'SupersededError';
  readonly code = 'SUPERSEDED';
  constructor(run: Pick<Run, 'jobId'>) {
    super(`The run of job ${run.jobId} lost its claim; its result is not kept.`);
  }
}

/** The parts of a run that name its claim. */
export type ClaimedRun = Pick<Run, 'bossJobId' | 'retryCount' | 'attempts' | 'jobId' | 'version' | 'startedAt'>;

export interface Cooldown {
  cooldownMs: number;
  /** Milliseconds since the provider answered; undefined when it was not called. */
  answeredAgoMs: number | undefined;
}

/**
 * Completes a run inside the caller's transaction, in which its effects are written too. When
 * requests came after the run began, the job is opened again at once: exactly one more run follows.
 * @returns whether one more run follows
 * @throws SupersededError when the claim is lost; the caller's transaction must roll back
 */
export async function completeRun(
  boss: PgBoss,
  tx: Queryable,
  run: Run,
  outcome: Outcome,
  cooldown: Cooldown,
): Promise<boolean> {
  const moved = await settleRequest(tx, run, outcome, cooldown);
  await mustAffectOne(run, boss.complete(FETCH_QUEUE, claimOf(run), null, { db: tx }));
  if (moved) await runOnceMore(tx, run, outcome);
  return moved;
}

/**
 * Ends a run for good: no retry will help.
 * @throws SupersededError as completeRun
 */
export async function failRun(
  boss: PgBoss,
  tx: Queryable,
  run: Run,
  outcome: Outcome,
  error: string,
  cooldown: Cooldown,
): Promise<boolean> {
  const moved = await settleRequest(tx, run, outcome, cooldown);
  await endFailed(boss, tx, run, error);
  if (moved) await runOnceMore(tx, run, outcome);
  return moved;
}

/**
 * Counts a failed attempt and schedules the next one, or ends the job when no attempt is left. A request
 * that came after the run began opens an ended job again.
 * @param delayMs wait before the next attempt
 * @param cooldown undefined where the call is long over
 * @returns 'retry' or 'failed'
 * @throws SupersededError as completeRun
 */
export async function retryRun(
  boss: PgBoss,
  tx: Queryable,
  run: ClaimedRun,
  error: string,
  delayMs: number,
  cooldown?: Cooldown,
): Promise<'retry' | 'failed'> {
  const moved = await lockRequest(tx, run, cooldown);
  if (run.attempts >= MAX_ATTEMPTS) {
    await endFailed(boss, tx, run, error);
    if (!moved) {
      await setOutcome(tx, run, 'exhausted');
      return 'failed';
    }
    await runOnceMore(tx, run, 'exhausted');
    return 'retry';
  }
  await mustAffectOne(run, boss.fail(FETCH_QUEUE, claimOf(run), { message: error }, { db: tx }));
  await recordAttempt(tx, run, 'retry', error);
  await returnToLane(boss, tx, run, error, delayMs);
  return 'retry';
}

/**
 * Puts a job back that could not run for a reason that is not its own (a 429): pending again, no
 * attempt counted.
 * @param until when it may run again; undefined: at once
 * @throws SupersededError as completeRun
 */
export async function putBackRun(
  boss: PgBoss,
  tx: Queryable,
  run: ClaimedRun,
  error: string,
  until: Date | undefined,
  cooldown: Cooldown,
): Promise<void> {
  await lockRequest(tx, run, cooldown);
  await mustAffectOne(run, boss.deleteJob(FETCH_QUEUE, claimOf(run), { db: tx }));
  await recordAttempt(tx, run, 'put_back', error);
  const [request] = await tx.query<{ boss_job_id: string; lane: number; activity_id: string; athlete_id: string }>(
    `UPDATE activity_fetch_job SET boss_job_id = time_ordered_uuid() WHERE id = $1
     RETURNING boss_job_id, activity_id, athlete_id, lane_of_job(id) AS lane`,
    [run.jobId],
  );
  if (!request) throw new SupersededError(run);
  const due = request.lane === DELETION_LANE ? undefined : until;
  await boss.insert(
    FETCH_QUEUE,
    [
      {
        id: request.boss_job_id,
        priority: request.lane,
        singletonKey: request.activity_id,
        group: { id: request.athlete_id },
        // The attempts used so far are those that are no longer left.
        retryLimit: MAX_ATTEMPTS - run.attempts,
        // pg-boss keeps a job for so long after its start: without one, from now.
        ...(due && { startAfter: due.toISOString() }),
        data: { activityId: request.activity_id, error },
      },
    ],
    { db: tx },
  );
  await tx.query('SELECT wake_lane($1, greatest($2::timestamptz, sync_now()))', [request.lane, due]);
}

async function settleRequest(tx: Queryable, run: Run, outcome: Outcome, cooldown: Cooldown): Promise<boolean> {
  const [row] = await tx.query<{ settled: 'settled' | 'moved' | 'gone' }>(
    'SELECT settle_run($1, $2, $3, $4, $5, $6, $7) AS settled',
    [
      run.jobId,
      run.bossJobId,
      run.version,
      outcome,
      run.athleteId,
      cooldown.cooldownMs,
      cooldown.answeredAgoMs === undefined ? null : Math.round(cooldown.answeredAgoMs),
    ],
  );
  if (row?.settled === 'gone') throw new SupersededError(run);
  return row?.settled === 'moved';
}

async function runOnceMore(tx: Queryable, run: ClaimedRun, outcome: Outcome): Promise<void> {
  await setOutcome(tx, run, outcome);
  await reopenJobs(tx, [run.jobId]);
}

async function setOutcome(tx: Queryable, run: ClaimedRun, outcome: Outcome): Promise<void> {
  await tx.query('UPDATE activity_fetch_job SET outcome = $2 WHERE id = $1', [run.jobId, outcome]);
}

// pg-boss ends a job as failed only when its retries are used up; one that must not be tried again is
// failed, for its error, and then cancelled.
async function endFailed(boss: PgBoss, tx: Queryable, run: ClaimedRun, error: string): Promise<void> {
  await mustAffectOne(run, boss.fail(FETCH_QUEUE, claimOf(run), { message: error }, { db: tx }));
  if (run.attempts < MAX_ATTEMPTS) await boss.cancel(FETCH_QUEUE, run.bossJobId, { db: tx });
  await recordAttempt(tx, run, 'failed', error);
}

// The request may have changed its lane while the job worked: stronger reason, or a deletion.
async function returnToLane(
  boss: PgBoss,
  tx: Queryable,
  run: ClaimedRun,
  error: string,
  delayMs: number,
): Promise<void> {
  const [row] = await tx.query<{ lane: number }>('SELECT lane_of_job($1) AS lane', [run.jobId]);
  const lane = row?.lane ?? DELETION_LANE;
  const waitMs = lane === DELETION_LANE ? 0 : delayMs;
  // A wait, not a time of day: the database's clock decides, the same for every replica.
  await boss.update(
    FETCH_QUEUE,
    { error },
    { id: run.bossJobId, priority: lane, startAfter: `${waitMs} milliseconds`, db: tx },
  );
  await tx.query(`SELECT wake_lane($1, sync_now() + $2 * interval '1 ms')`, [lane, waitMs]);
}

/** Locks the request, ends the athlete's cooldown, and says whether requests came after the run began. */
async function lockRequest(tx: Queryable, run: ClaimedRun, cooldown: Cooldown | undefined): Promise<boolean> {
  await tx.query(
    'SELECT FROM athlete_schedule WHERE athlete_id = (SELECT athlete_id FROM activity_fetch_job WHERE id = $1) FOR UPDATE',
    [run.jobId],
  );
  const [request] = await tx.query<{ athlete_id: string; version: number }>(
    'SELECT athlete_id, version FROM activity_fetch_job WHERE id = $1 FOR UPDATE',
    [run.jobId],
  );
  if (!request) throw new SupersededError(run);
  if (cooldown?.answeredAgoMs !== undefined) {
    const { cooldownMs, answeredAgoMs } = cooldown;
    await tx.query('SELECT end_cooldown($1, $2, $3, $4)', [
      request.athlete_id,
      run.bossJobId,
      cooldownMs,
      Math.round(answeredAgoMs),
    ]);
  }
  return request.version !== run.version;
}

/** Notes a run that did not finish its job. */
export async function recordAttempt(
  tx: Queryable,
  run: Pick<ClaimedRun, 'jobId' | 'startedAt'>,
  result: 'retry' | 'put_back' | 'failed',
  error: string,
): Promise<void> {
  await tx.query(
    `INSERT INTO fetch_attempt (job_id, started_at, result, error) VALUES ($1, $2, $3, $4) RETURNING pg_notify('activity_sync', 'job')`,
    [run.jobId, run.startedAt, result, error],
  );
}

// pg-boss answers how many jobs a command changed; its types leave that out.
async function mustAffectOne(run: ClaimedRun, command: Promise<object>): Promise<void> {
  const { affected } = (await command) as { affected?: number };
  if (affected !== 1) throw new SupersededError(run);
}

function claimOf(run: ClaimedRun) {
  return { id: run.bossJobId, retryCount: run.retryCount };
}
