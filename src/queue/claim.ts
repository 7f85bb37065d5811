import type { PgBoss } from 'pg-boss';
import type { Int64 } from '../domain/int64.ts';
import { type Aspect, MAX_ATTEMPTS, type Reason } from '../domain/job.ts';
import { FETCH_QUEUE } from '../infra/boss.ts';
import type { Database, Queryable } from '../infra/database.ts';

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
  /** How long the job was due before it was claimed, in milliseconds. */
  waitedMs: number;
}

/** Nothing to claim now: how long until it is worth asking again (undefined: nothing waits), and for what. */
export interface Wait {
  waitMs: number | undefined;
  waitsFor: 'turn' | 'cooldown' | 'budget';
}

/** Rolls the claim back: the budget went between the look and the grant. */
class BudgetGone extends Error {
  readonly waitMs: number;
  constructor(waitMs: number) {
    super('the budget is spent');
    this.waitMs = waitMs;
  }
}

/**
 * Claims the job whose turn it is, as one transaction: lane, job, budget and cooldown together, or
 * nothing at all. Times are the database's.
 * @param holdMs how long the athlete is kept from another fetch unless the run ends before: cooldown plus call
 */
export async function claimRun(database: Database, boss: PgBoss, holdMs: number): Promise<Run | Wait> {
  for (;;) {
    try {
      const claimed = await database.transaction((tx) => claimIn(tx, boss, holdMs));
      if (claimed !== 'nothing in that lane') return claimed;
    } catch (error) {
      if (error instanceof BudgetGone) return { waitMs: error.waitMs, waitsFor: 'budget' };
      throw error;
    }
  }
}

export function isRun(claimed: Run | Wait): claimed is Run {
  return 'bossJobId' in claimed;
}

const NEXT_TURN = `
  SELECT lane, waits_for,
    CASE WHEN wake_at < 'infinity' THEN ceil(extract(epoch FROM wake_at - sync_clock()) * 1000)::float8 END AS wait_ms
  FROM next_turn()`;

async function claimIn(tx: Queryable, boss: PgBoss, holdMs: number): Promise<Run | Wait | 'nothing in that lane'> {
  const [turn] = await tx.query<{ lane: number | null; wait_ms: number | null; waits_for: Wait['waitsFor'] }>(
    NEXT_TURN,
    [],
  );
  if (turn === undefined || turn.lane === null) {
    return { waitMs: turn?.wait_ms ?? undefined, waitsFor: turn?.waits_for ?? 'turn' };
  }
  const { lane } = turn;
  const [job] = await boss.fetch(FETCH_QUEUE, {
    batchSize: 1,
    minPriority: lane,
    maxPriority: lane,
    includeMetadata: true,
    db: tx,
  });
  if (!job) {
    await tx.query('SELECT rest_lane($1)', [lane]);
    return 'nothing in that lane';
  }
  const [begun] = await tx.query<BegunRow>('SELECT *, started_at::text AS started_at_text FROM begin_run($1, $2, $3)', [
    job.id,
    lane,
    holdMs,
  ]);
  if (!begun) {
    // Its request was deleted by hand: nobody asks for this job any more.
    await boss.deleteJob(FETCH_QUEUE, job.id, { db: tx });
    return 'nothing in that lane';
  }
  if (begun.refused_until) throw new BudgetGone(begun.refused_until.getTime() - begun.started_at.getTime());
  const waitedMs = Math.max(
    0,
    begun.started_at.getTime() - Math.max(job.startAfter.getTime(), begun.requested_at.getTime()),
  );
  return toRun(begun, job, waitedMs);
}

interface BegunRow {
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
  refused_until: Date | null;
  started_at: Date;
  started_at_text: string;
  requested_at: Date;
}

function toRun(row: BegunRow, job: { id: string; retryCount: number; retryLimit: number }, waitedMs: number): Run {
  return {
    bossJobId: job.id,
    retryCount: job.retryCount,
    attempts: MAX_ATTEMPTS - job.retryLimit + job.retryCount,
    waitedMs,
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
    startedAt: row.started_at_text,
    requestedAt: row.requested_at,
  };
}
