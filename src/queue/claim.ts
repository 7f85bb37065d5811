import { randomUUID } from 'node:crypto';
import type { PgBoss } from 'pg-boss';
import type { Int64 } from '../domain/int64.ts';
import type { Aspect, Reason } from '../domain/job.ts';
import { FETCH_QUEUE } from '../infra/boss.ts';
import type { Database } from '../infra/database.ts';

/** A claimed job: everything that its run needs. The pair (bossJobId, retryCount) names the claim. */
export interface Run {
  bossJobId: string;
  retryCount: number;
  /** Retries scheduled so far. */
  attempts: number;
  jobId: Int64;
  activityId: Int64;
  athleteId: Int64;
  reason: Reason;
  force: boolean;
  aspect: Aspect;
  /** The newest request that this run answers. */
  version: number;
  /** Whether the provider must be called; the call is then taken out of the budget already. */
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
  /** By performance.now(), a little before the claim: what the call's grant is as old as. */
  claimedAt: number;
  /** How long the job was due before it was claimed, in milliseconds. */
  waitedMs: number;
}

/** What was claimed; where fewer than asked for, how long until it is worth asking again, and for what to wait. */
export interface Claims {
  runs: Run[];
  /** Undefined: nothing waits. */
  waitMs: number | undefined;
  waitsFor: 'turn' | 'cooldown' | 'budget' | undefined;
}

/**
 * Claims the jobs whose turn it is, as one transaction and one round trip: lane, job, budget and cooldown
 * together, or nothing at all. Times are the database's.
 * @param most how many at most
 * @param holdMs how long an athlete is kept from another fetch unless the run ends before: cooldown plus call
 */
export type ClaimRuns = (most: number, holdMs: number) => Promise<Claims>;

/** Claims under a mark of its own, a UUID, by which the jobs are found when the answer is lost. */
export type MarkClaims = <T>(claim: (mark: string) => Promise<T>) => Promise<T>;

export function createClaimRuns(
  database: Database,
  boss: PgBoss,
  markClaims: MarkClaims = (claim) => claim(randomUUID()),
): ClaimRuns {
  return async (most, holdMs) => {
    for (;;) {
      const claimedAt = performance.now();
      const { rows, claims } = await markClaims(async (mark) => {
        const rows = await database.query<ClaimRow>('SELECT * FROM claim_runs($1, $2, $3)', [most, holdMs, mark]);
        return { rows, claims: await readClaims(database, boss, rows, claimedAt) };
      });
      if (claims.runs.length > 0 || rows.some(({ claim }) => claim === 'wait')) return claims;
    }
  };
}

/** Reads what claim_runs returned. @param claimedAt by performance.now(), before it was called */
export async function readClaims(
  database: Database,
  boss: PgBoss,
  rows: readonly ClaimRow[],
  claimedAt: number,
): Promise<Claims> {
  const orphans = rows.filter(({ claim }) => claim === 'orphan').map((row) => row.boss_job_id);
  // Their requests were deleted by hand: nobody asks for these jobs any more.
  if (orphans.length > 0) await boss.deleteJob(FETCH_QUEUE, orphans, { db: database });
  const wait = rows.find(({ claim }) => claim === 'wait');
  return {
    runs: rows.filter(({ claim }) => claim === 'run').map((row) => toRun(row, claimedAt)),
    waitMs: wait ? (wait.wait_ms ?? undefined) : 0,
    waitsFor: wait?.waits_for ?? undefined,
  };
}

/** A row of claim_runs; what it means stands there. */
export interface ClaimRow {
  claim: 'run' | 'orphan' | 'wait' | 'again';
  boss_job_id: string;
  retry_count: number;
  attempts: number;
  wait_ms: number | null;
  waits_for: 'turn' | 'cooldown' | 'budget' | null;
  waited_ms: number | null;
  job_id: string;
  activity_id: string;
  athlete_id: string;
  reason: Reason;
  force: boolean;
  aspect: Aspect;
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
}

function toRun(row: ClaimRow, claimedAt: number): Run {
  return {
    claimedAt,
    bossJobId: row.boss_job_id,
    retryCount: row.retry_count,
    attempts: row.attempts,
    waitedMs: row.waited_ms ?? 0,
    jobId: row.job_id,
    activityId: row.activity_id,
    athleteId: row.athlete_id,
    reason: row.reason,
    force: row.force,
    aspect: row.aspect,
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
  };
}
