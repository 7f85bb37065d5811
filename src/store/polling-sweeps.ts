import type { Int64 } from '../domain/int64.ts';
import type { Queryable } from '../infra/database.ts';
import { type CheckStep, walkLost } from './list-walks.ts';

/** A sweep that has just ended. */
export interface SweepSummary {
  athletes: number;
  failed: number;
  queued: number;
  /** From its start to its end, in milliseconds. */
  tookMs: number;
  finishedAt: Date;
}

/** Starts a sweep, which will visit every healthy athlete. @throws WalkLostError */
export async function beginSweep(tx: Queryable, claim: CheckStep): Promise<void> {
  const begun = await tx.query(BEGIN, [claim.walkId, claim.claimToken]);
  if (begun.length === 0) throw walkLost(claim);
}

// An athlete whose row is locked is being erased. After those who have just connected, whose visits are due already.
const BEGIN = `
  WITH healthy AS (SELECT athlete_id FROM athlete WHERE state = 'healthy' FOR KEY SHARE SKIP LOCKED), added AS (
    INSERT INTO list_visit (walk_id, athlete_id, not_before) SELECT $1, athlete_id, sync_now() FROM healthy
    ON CONFLICT DO NOTHING RETURNING 1
  )
  UPDATE list_walk SET state = 'running', started_at = sync_now(), claim_token = NULL, lease_until = '-infinity', error = NULL,
    athletes = (SELECT count(*) FROM added) + (SELECT count(*) FROM list_visit WHERE walk_id = $1),
    athletes_listed = 0, athletes_failed = 0, pages = 0, listed = 0, queued = 0
  WHERE id = $1 AND claim_token = $2 RETURNING id`;

/** Ends the sweep: no athlete is left to visit. @throws WalkLostError */
export async function endSweep(tx: Queryable, claim: CheckStep): Promise<SweepSummary> {
  const [ended] = await tx.query<SweepSummary>(
    `UPDATE list_walk SET state = 'finished', finished_at = sync_now(), claim_token = NULL, lease_until = '-infinity'
     WHERE id = $1 AND claim_token = $2
     RETURNING athletes, athletes_failed AS failed, queued, (extract(epoch FROM sync_now() - started_at) * 1000)::float8 AS "tookMs",
       finished_at AS "finishedAt"`,
    [claim.walkId, claim.claimToken],
  );
  if (!ended) throw walkLost(claim);
  return ended;
}

/**
 * Has polling visit an athlete who has just connected, before those of a running sweep. No process reads the visit
 * while automatic sync is off.
 */
export async function visitAtOnce(tx: Queryable, athleteId: Int64): Promise<void> {
  await tx.query(
    `INSERT INTO list_visit (walk_id, athlete_id) SELECT id, $1 FROM list_walk WHERE kind = 'polling'
     ON CONFLICT (walk_id, athlete_id) DO UPDATE SET not_before = '-infinity', before_s = NULL, page = 1, boundary = '{}',
       known_in_a_row = 0, failures = 0
     RETURNING pg_notify('activity_sync', 'polling')`,
    [athleteId],
  );
}

/** When the running polling sweep began (null: none is running), and when the last one finished (null: never). */
export async function readSweepTimes(
  database: Queryable,
): Promise<{ startedAt: Date | null; finishedAt: Date | null }> {
  const [row] = await database.query<{ startedAt: Date | null; finishedAt: Date | null }>(
    `SELECT CASE WHEN state = 'running' THEN started_at END AS "startedAt",
       CASE WHEN finished_at > '-infinity' THEN finished_at END AS "finishedAt" FROM list_walk WHERE kind = 'polling'`,
    [],
  );
  return row ?? { startedAt: null, finishedAt: null };
}
