import type { PgBoss } from 'pg-boss';
import type { Int64 } from '../domain/int64.ts';
import { type Aspect, MAX_ATTEMPTS, type Reason } from '../domain/job.ts';
import { FETCH_QUEUE } from '../infra/boss.ts';
import type { Database, Queryable } from '../infra/database.ts';
import { IDLE_CLAIM_MS } from '../infra/database-policy.ts';
import type { ClaimToken } from './claims.ts';
import { restLane } from './lanes.ts';

/** A claimed job: everything that its run needs. */
export interface Run extends ClaimToken {
  /** Retries scheduled so far. */
  attempts: number;
  jobId: Int64;
  activityId: Int64;
  athleteId: Int64;
  reason: Reason;
  force: boolean;
  aspect: Aspect;
  /** The newest webhook event carried a valid signature. */
  signed: boolean;
  /** The newest request that this run answers. */
  version: number;
  /** Whether the provider must be called; the call is taken out of the budget already. */
  needsCall: boolean;
  knownAthlete: boolean;
  knownActivity: boolean;
  /** Encrypted. */
  accessToken: string | undefined;
  tokenExpiresAt: Date | undefined;
  scope: string | undefined;
  athleteState: string | undefined;
  /** Database time, in microseconds as text. */
  startedAt: string;
  requestedAt: Date;
  /** By performance.now(), just before the claim: the age of the call's grant. */
  claimedAt: number;
  /** How long the job was due before it was claimed, in milliseconds. */
  waitedMs: number;
}

/** A run, or how long to wait before the next claim, and for what. */
export interface Claim {
  run?: Run;
  /** Undefined: nothing waits. */
  waitMs?: number | undefined;
  waitsFor?: 'turn' | 'cooldown' | 'budget' | undefined;
}

/**
 * Claims the next job by priority, in one transaction: lane, job, budget and cooldown together, or nothing at all. Times
 * are the database's.
 * @param options.processId names the process that runs the job
 * @param options.holdMs how long an athlete is kept from another fetch unless the run ends before: cooldown plus call
 */
export async function claimRun(
  database: Database,
  boss: PgBoss,
  options: { processId: number; holdMs: number },
): Promise<Claim> {
  for (;;) {
    const claimedAt = performance.now();
    const claim = await database
      .transaction((tx) => claimInTransaction(tx, boss, { ...options, claimedAt }), { idleMs: IDLE_CLAIM_MS })
      .catch((error: unknown) => {
        if (error instanceof BudgetClosed) return {}; // another replica took the call in the meantime: try again
        throw error;
      });
    if ('run' in claim || 'waitMs' in claim) return claim;
  }
}

class BudgetClosed extends Error {}

interface LaneRow {
  lane: number | null;
  reason: Reason | 'delete' | null;
  wait_ms: number | null;
  waits_for: Claim['waitsFor'] | null;
}

/** @returns an empty claim when the caller should try again at once */
async function claimInTransaction(
  tx: Queryable,
  boss: PgBoss,
  { processId, holdMs, claimedAt }: { processId: number; holdMs: number; claimedAt: number },
): Promise<Claim> {
  const [next] = await tx.query<LaneRow>('SELECT * FROM next_lane()', []);
  if (!next || next.lane === null)
    return { waitMs: next?.wait_ms ?? undefined, waitsFor: next?.waits_for ?? undefined };
  const [job] = await boss.fetch(FETCH_QUEUE, {
    minPriority: next.lane,
    maxPriority: next.lane,
    includeMetadata: true,
    db: tx,
  });
  if (!job) {
    await restLane(tx, next.lane);
    return {};
  }
  const [row] = await tx.query<RunRow>('SELECT * FROM begin_run($1, $2, $3, $4)', [
    job.id,
    next.lane,
    processId,
    holdMs,
  ]);
  if (!row) {
    // Its request was deleted manually: the job has no purpose.
    await boss.deleteJob(FETCH_QUEUE, job.id, { db: tx });
    return {};
  }
  if (row.opens_at) throw new BudgetClosed();
  const token = { bossJobId: job.id, retryCount: job.retryCount };
  return { run: { ...toRun(row), ...token, attempts: MAX_ATTEMPTS - job.retryLimit + job.retryCount, claimedAt } };
}

interface RunRow {
  opens_at: Date | null;
  job_id: string;
  activity_id: string;
  athlete_id: string;
  reason: Reason;
  force: boolean;
  aspect: Aspect;
  signed: boolean;
  version: number;
  needs_call: boolean;
  known_athlete: boolean;
  known_activity: boolean;
  access_token: string | null;
  token_expires_at: Date | null;
  scope: string | null;
  athlete_state: string | null;
  started_at: string;
  requested_at: Date;
  waited_ms: number | null;
}

function toRun(row: RunRow): Omit<Run, keyof ClaimToken | 'attempts' | 'claimedAt'> {
  return {
    jobId: row.job_id,
    activityId: row.activity_id,
    athleteId: row.athlete_id,
    reason: row.reason,
    force: row.force,
    aspect: row.aspect,
    signed: row.signed,
    version: row.version,
    needsCall: row.needs_call,
    knownAthlete: row.known_athlete,
    knownActivity: row.known_activity,
    accessToken: row.access_token ?? undefined,
    tokenExpiresAt: row.token_expires_at ?? undefined,
    scope: row.scope ?? undefined,
    athleteState: row.athlete_state ?? undefined,
    startedAt: row.started_at,
    requestedAt: row.requested_at,
    waitedMs: row.waited_ms ?? 0,
  };
}
