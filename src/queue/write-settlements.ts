import type { PgBoss } from 'pg-boss';
import { type Aspect, MAX_ATTEMPTS, type Outcome, type Reason } from '../domain/job.ts';
import { FETCH_QUEUE } from '../infra/boss.ts';
import type { Queryable } from '../infra/database.ts';
import { notify } from '../infra/notify.ts';
import { type ActivityToSave, deleteActivity, removeActivity, saveActivities } from '../store/activities.ts';
import { lockTokens, setAthleteState } from '../store/athletes.ts';
import { lockKnownAthletes } from './athlete-locks.ts';
import type { Run } from './claim.ts';
import { attemptsOf, ClaimLostError, mustAffect } from './claims.ts';
import { laneReasonOf, wakeLanes } from './lanes.ts';
import { type JobPlace, placeJobs, reopenJobs } from './requests.ts';
import type { RunResult, Settlement } from './settlement.ts';
import { requestThumbnails } from './thumbnail-queue.ts';

/** The parts of a run that its end is written from. */
export type ClaimedRun = Pick<
  Run,
  | 'bossJobId'
  | 'retryCount'
  | 'attempts'
  | 'jobId'
  | 'activityId'
  | 'athleteId'
  | 'version'
  | 'startedAt'
  | 'athleteState'
>;

interface Dependencies {
  boss: PgBoss;
  cooldownMs: number;
  backoffMs: (attempts: number) => number;
}

interface Item {
  run: ClaimedRun;
  settlement: Settlement;
}

/** An item with its request as it is now. */
interface Settling extends Item {
  request: RequestRow;
  /** A request came after the claim: one more run follows. */
  moved: boolean;
}

/**
 * Writes the ends of runs, with their effects, inside the caller's transaction. At most one for each job.
 * @returns a result for each item
 * @throws ClaimLostError when any of the runs no longer holds its job; the transaction must roll back
 */
export async function writeSettlements(
  deps: Dependencies,
  tx: Queryable,
  items: readonly Item[],
): Promise<RunResult[]> {
  // One who connects at this moment waits or is seen: connecting cannot re-open a job that is still running.
  for (const athleteId of lackingAccess(items)) await lockTokens(tx, athleteId);
  await lockKnownAthletes(
    tx,
    items.map(({ run }) => run.athleteId),
  );
  const settling = await readRequests(tx, items);
  await endBossJobs(deps, tx, settling);
  await endRequests(deps, tx, settling);
  await storeActivities(deps, tx, settling);
  for (const { run, settlement } of settling) await applyEffect(tx, run, settlement);
  await reopenJobs(
    deps.boss,
    tx,
    settling.filter((one) => one.moved && outcomeOf(one) !== undefined).map(({ run }) => run.jobId),
  );
  await notify(tx, 'job');
  await stopForThrottle(tx, settling);
  return settling.map(resultOf);
}

/** The athletes whose missing access ended a run, in the order of their locks. */
function lackingAccess(items: readonly Item[]): string[] {
  const lacking = items.filter(({ settlement }) => settlement.kind === 'ended' && settlement.wantsAccess);
  return [...new Set(lacking.map(({ run }) => run.athleteId))].sort();
}

interface RequestRow {
  id: string;
  activity_id: string;
  athlete_id: string;
  version: number;
  reason: Reason;
  aspect: Aspect;
  signed: boolean;
  boss_job_id: string;
  running: boolean | null;
  retry_count: number | null;
  athlete_state: string | null;
  connected_since: boolean | null;
}

// Names the rows by = ANY as well: for a join with unnest alone the planner expects so many rows that it reads the whole table.
const FIND_REQUESTS = `
  SELECT r.id, r.activity_id, r.athlete_id, r.version, r.reason, r.aspect, r.signed, r.boss_job_id, f.running, f.retry_count,
    a.state AS athlete_state, a.connected_at > c.started_at AS connected_since
  FROM unnest($1::bigint[], $2::text[]::timestamptz[]) AS c (job_id, started_at)
  JOIN activity_fetch_job r ON r.id = c.job_id
  LEFT JOIN fetch_queue() f ON f.boss_job_id = r.boss_job_id
  LEFT JOIN athlete a ON a.athlete_id = r.athlete_id
  WHERE r.id = ANY ($1::bigint[])`;

/** Locks the requests, and so waits for a notification in progress, or counts it. @throws ClaimLostError */
async function readRequests(tx: Queryable, items: readonly Item[]): Promise<Settling[]> {
  const ids = items.map(({ run }) => run.jobId);
  await tx.query('SELECT FROM activity_fetch_job WHERE id = ANY ($1::bigint[]) ORDER BY activity_id FOR UPDATE', [ids]);
  const rows = await tx.query<RequestRow>(FIND_REQUESTS, [ids, items.map(({ run }) => run.startedAt)]);
  const byId = new Map(rows.map((row) => [row.id, row]));
  return items.map(({ run, settlement }) => {
    const request = byId.get(run.jobId);
    const holds =
      request?.boss_job_id === run.bossJobId && request.running === true && request.retry_count === run.retryCount;
    if (!holds) throw new ClaimLostError(run.jobId);
    const moved = request.version !== run.version;
    return { run, settlement: heedAccess(run, settlement, request), request, moved };
  });
}

/**
 * A run that ends for lack of access is released if the athlete has granted it in the meantime: connecting could not
 * re-open a job that was running.
 */
function heedAccess(run: ClaimedRun, settlement: Settlement, request: RequestRow): Settlement {
  if (settlement.kind !== 'ended' || !settlement.wantsAccess) return settlement;
  const { athlete_state: state, connected_since: connected } = request;
  const hasChanged = run.athleteState !== 'healthy' && state !== null && state !== run.athleteState;
  if (!connected && !hasChanged) return settlement;
  const error = 'The athlete connected while the job ran without their access.';
  return { kind: 'release', error, ...(settlement.lastCall ? { lastCall: settlement.lastCall } : {}) };
}

/** The outcome that a settlement ends its job with; undefined when the job continues. */
function outcomeOf({ run, settlement }: Item): Outcome | undefined {
  if (settlement.kind === 'stored' || settlement.kind === 'ended') return settlement.outcome;
  return settlement.kind === 'retry' && run.attempts >= MAX_ATTEMPTS ? 'exhausted' : undefined;
}

function resultOf(item: Settling): RunResult {
  return outcomeOf(item) ?? (item.settlement.kind === 'retry' ? 'retry' : 'put_back');
}

function errorOf({ settlement }: Item): string | undefined {
  return settlement.kind === 'stored' ? undefined : settlement.error;
}

/** Ends pg-boss's jobs, and requeues those that continue. @throws ClaimLostError */
async function endBossJobs(
  { boss, backoffMs }: Dependencies,
  tx: Queryable,
  settling: readonly Settling[],
): Promise<void> {
  const done = settling
    .filter((one) => outcomeOf(one) !== undefined && errorOf(one) === undefined)
    .map(({ run }) => run);
  if (done.length > 0) await mustAffect(done, boss.complete(FETCH_QUEUE, attemptsOf(done), null, { db: tx }));
  const released: JobPlace[] = [];
  for (const one of settling) {
    const { run, settlement, request } = one;
    if (settlement.kind === 'release') {
      await mustAffect([run], boss.deleteJob(FETCH_QUEUE, attemptsOf([run]), { db: tx }));
      released.push(toReleased(run, settlement.error, request));
    } else if (errorOf(one) !== undefined) {
      const message = errorOf(one);
      await mustAffect([run], boss.fail(FETCH_QUEUE, attemptsOf([run]), { message }, { db: tx }));
      if (outcomeOf(one) === undefined) {
        const delayMs = settlement.kind === 'retry' ? (settlement.delayMs ?? backoffMs(run.attempts)) : 0;
        await scheduleRetry(boss, tx, one, delayMs);
      } else if (run.attempts < MAX_ATTEMPTS) {
        // pg-boss ends a job as failed only when its retries are used up.
        await boss.cancel(FETCH_QUEUE, run.bossJobId, { db: tx });
      }
    }
  }
  await renameBossJobs(tx, released);
  await placeJobs(boss, tx, released);
}

function toReleased(run: ClaimedRun, error: string, request: RequestRow): JobPlace {
  return {
    jobId: run.jobId,
    activityId: request.activity_id,
    athleteId: request.athlete_id,
    bossJobId: crypto.randomUUID(),
    lane: laneReasonOf(request),
    attempts: run.attempts,
    error,
  };
}

async function renameBossJobs(tx: Queryable, places: readonly JobPlace[]): Promise<void> {
  if (places.length === 0) return;
  await tx.query(
    `UPDATE activity_fetch_job r SET boss_job_id = p.boss_job_id FROM unnest($1::bigint[], $2::uuid[]) AS p (id, boss_job_id) WHERE r.id = p.id`,
    [places.map(({ jobId }) => jobId), places.map(({ bossJobId }) => bossJobId)],
  );
}

/** The request may have changed its lane while the job ran: a stronger reason, or a deletion. */
async function scheduleRetry(boss: PgBoss, tx: Queryable, one: Settling, delayMs: number): Promise<void> {
  const { run, request } = one;
  const lane = laneReasonOf(request);
  const waitMs = lane === 'delete' ? 0 : delayMs;
  const [priority] = await wakeLanes(tx, [{ athleteId: request.athlete_id, lane }], waitMs);
  // A duration, not a time: the database's clock decides, the same for every replica.
  const startAfter = `${waitMs} milliseconds`;
  await boss.update(
    FETCH_QUEUE,
    { error: errorOf(one) },
    { id: run.bossJobId, priority: priority as number, startAfter, db: tx },
  );
}

/** Writes outcomes, runs and cooldowns, and forgets the claims. */
async function endRequests({ cooldownMs }: Dependencies, tx: Queryable, settling: readonly Settling[]): Promise<void> {
  const endOfCooldownMs = ({ lastCall }: Settlement): number | null => {
    if (lastCall === undefined) return null;
    return lastCall === 'none' ? 0 : Math.round(cooldownMs - (performance.now() - lastCall.at));
  };
  await tx.query(END_REQUESTS, [
    settling.map(({ run }) => run.jobId),
    settling.map(({ run }) => run.bossJobId),
    settling.map(({ run }) => run.athleteId),
    settling.map((one) => outcomeOf(one) ?? null),
    settling.map(({ settlement }) => endOfCooldownMs(settlement)),
    settling.map(({ run }) => run.startedAt),
    settling.map((one) => {
      if (errorOf(one) === undefined) return 'done';
      return outcomeOf(one) !== undefined ? 'failed' : one.settlement.kind === 'retry' ? 'retry' : 'put_back';
    }),
    settling.map((one) => errorOf(one) ?? null),
    settling.map(({ settlement }) => settlement.kind === 'retry' && settlement.reclaimed === true),
  ]);
}

// The run that holds the athlete sets the cooldown exactly; one that outlived its hold can only lengthen it.
const END_REQUESTS = `
  WITH s AS MATERIALIZED (
    SELECT * FROM unnest($1::bigint[], $2::uuid[], $3::bigint[], $4::text[], $5::integer[], $6::text[]::timestamptz[], $7::text[], $8::text[], $9::boolean[])
      AS s (job_id, boss_job_id, athlete_id, outcome, cooldown_ms, started_at, result, error, reclaimed)
  ), ended AS (
    UPDATE activity_fetch_job r SET outcome = s.outcome::fetch_outcome, reclaims = r.reclaims + s.reclaimed::int
    FROM s WHERE r.id = s.job_id AND r.id = ANY ($1::bigint[]) AND (s.outcome IS NOT NULL OR s.reclaimed)
  ), freed AS (
    DELETE FROM job_claim c USING s WHERE c.boss_job_id = s.boss_job_id
  ), cooled AS (
    UPDATE athlete_schedule a SET cooldown_until = CASE WHEN a.held_by = s.boss_job_id THEN s.until ELSE greatest(a.cooldown_until, s.until) END
    FROM (SELECT s.*, sync_clock() + s.cooldown_ms * interval '1 ms' AS until FROM s WHERE s.cooldown_ms IS NOT NULL) s
    WHERE a.athlete_id = s.athlete_id AND a.athlete_id = ANY ($3::bigint[])
  )
  INSERT INTO fetch_attempt (job_id, started_at, result, outcome, error)
  SELECT s.job_id, s.started_at, s.result, s.outcome::fetch_outcome, s.error FROM s`;

async function storeActivities({ boss }: Dependencies, tx: Queryable, settling: readonly Settling[]): Promise<void> {
  const toSave = settling.flatMap(({ run, settlement }): ActivityToSave[] =>
    settlement.kind === 'stored' ? [{ ...settlement, runStartedAt: run.startedAt }] : [],
  );
  if (toSave.length === 0) return;
  const saved = await saveActivities(tx, toSave);
  await requestThumbnails(
    boss,
    tx,
    saved.map(({ activityId }) => activityId),
  );
}

async function applyEffect(tx: Queryable, run: ClaimedRun, settlement: Settlement): Promise<void> {
  if (settlement.kind !== 'ended' || !settlement.effect) return;
  const { effect } = settlement;
  if (effect.kind === 'delete') await deleteActivity(tx, run.activityId, run.athleteId);
  else if (effect.kind === 'remove') await removeActivity(tx, run.activityId, run.athleteId);
  else await setAthleteState(tx, run.athleteId, 'reconnect', effect.detail);
}

// Last: every replica waits for the budget's lock until the transaction ends.
async function stopForThrottle(tx: Queryable, settling: readonly Settling[]): Promise<void> {
  for (const { settlement } of settling) {
    if (settlement.kind !== 'release' || !settlement.throttle) continue;
    const { waitMs, why } = settlement.throttle;
    await tx.query('SELECT block_budget($1, $2)', [waitMs === undefined ? null : Math.round(waitMs), why]);
  }
}
