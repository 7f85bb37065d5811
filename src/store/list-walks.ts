import { randomUUID } from 'node:crypto';
import type { Int64 } from '../domain/int64.ts';
import type { Database, Queryable } from '../infra/database.ts';

/**
 * How far a walk has come through an athlete's list. The next page is requested by the oldest start seen, not
 * by number: activities that come or go in the meantime shift nothing.
 */
export interface ListCursor {
  /** Upper bound of the page, epoch seconds, exclusive. */
  beforeS: number;
  /** Counts on only while activities that start in one and the same second fill a page. */
  page: number;
  /** Activities of the second at the bound, which were on the page before already. */
  boundary: readonly Int64[];
}

/** A walk, claimed for one step until the lease ends. */
export interface WalkClaim {
  walkId: Int64;
  /** The polling sweeps share one walk; each manual sync is one. */
  kind: 'polling' | 'manual';
  claimToken: string;
}

/** One page to read. */
export interface PageStep extends WalkClaim {
  step: 'page';
  athleteId: Int64;
  cursor: ListCursor;
  /** Nothing of the athlete's list has been read in this visit. */
  isFirst: boolean;
  knownInARow: number;
  failures: number;
  afterS: number | null;
  force: boolean;
  /** Database time of the claim: the list that is read now is no older. */
  claimedAt: Date;
}

/** Time to begin or end a sweep, to count what a sync fetched, or to remove what a cancelled one queued. */
export interface CheckStep extends WalkClaim {
  step: 'check';
  state: 'running' | 'finished' | 'cancelled';
}

export type WalkStep = PageStep | CheckStep;

/** The claim was lost, the sync cancelled or the athlete erased: what was found must not be written. */
export class WalkLostError extends Error {
  override name = 'WalkLostError';
  readonly code = 'WALK_LOST';
}

/**
 * Claims the next step of the walk that has waited longest for one.
 * @param options.sweepEveryMs from the end of a sweep to the start of the next; undefined: manual syncs only
 * @param options.leaseMs after which a claim that was neither settled nor released is free again
 */
export async function claimWalkStep(
  database: Database,
  options: { sweepEveryMs: number | undefined; leaseMs: number },
): Promise<{ step: WalkStep } | { waitMs: number | undefined }> {
  const sweepEveryMs = options.sweepEveryMs ?? null;
  return database.transaction(async (tx) => {
    for (;;) {
      const [next] = await tx.query<{ id: string }>(LOCK_NEXT_WALK, [sweepEveryMs]);
      if (!next) {
        const [due] = await tx.query<{ waitMs: number }>(NEXT_DUE, [sweepEveryMs]);
        return { waitMs: due?.waitMs };
      }
      // Read again under the lock: the snapshot before it may show a page that another process has read.
      const [row] = await tx.query<StepRow>(READ_STEP, [sweepEveryMs, next.id]);
      if (!row) continue;
      const claimToken = randomUUID();
      await tx.query(
        `UPDATE list_walk SET claim_token = $2, lease_until = sync_now() + $3 * interval '1 ms', stepped_at = sync_now() WHERE id = $1`,
        [next.id, claimToken, options.leaseMs],
      );
      return { step: toStep(row, claimToken) };
    }
  });
}

// Visits are in the order of their times; if two are due, the lower athlete id goes first.
const OPEN_WALKS = `
  FROM list_walk w
  LEFT JOIN LATERAL (SELECT * FROM list_visit WHERE walk_id = w.id ORDER BY not_before, athlete_id LIMIT 1) v ON true
  CROSS JOIN LATERAL (SELECT
    CASE WHEN w.kind = 'manual' THEN w.check_due_at WHEN w.state = 'finished' THEN w.finished_at + $1::float8 * interval '1 ms'
      WHEN v.walk_id IS NULL THEN '-infinity' END AS check_at,
    CASE WHEN v.walk_id IS NOT NULL THEN greatest(w.not_before, v.not_before) END AS page_at) d
  WHERE (w.kind = 'polling' OR w.check_due_at IS NOT NULL) AND (w.kind = 'manual' OR $1 IS NOT NULL)`;

const IS_DUE = `AND w.lease_until <= sync_now() AND least(d.check_at, d.page_at) <= sync_now()`;

const LOCK_NEXT_WALK = `SELECT w.id ${OPEN_WALKS} ${IS_DUE} ORDER BY w.stepped_at, w.id LIMIT 1 FOR NO KEY UPDATE OF w SKIP LOCKED`;

const READ_STEP = `
  SELECT w.id AS "walkId", w.kind, w.state, coalesce(d.check_at <= sync_now(), false) AS "isCheck", v.athlete_id AS "athleteId",
    coalesce(v.before_s, w.before_s, floor(extract(epoch FROM sync_now())) + 1)::float8 AS "beforeS", v.page, v.boundary,
    v.before_s IS NULL AS "isFirst", v.known_in_a_row AS "knownInARow", v.failures, w.after_s::float8 AS "afterS", w.force,
    sync_now() AS "claimedAt"
  ${OPEN_WALKS} ${IS_DUE} AND w.id = $2`;

// Never under 25 ms: no tight loop for a walk that is due but locked.
const NEXT_DUE = `
  SELECT ceil(extract(epoch FROM greatest(sync_now() + interval '25 ms', min(greatest(least(d.check_at, d.page_at), w.lease_until)))
    - sync_now()) * 1000)::float8 AS "waitMs" ${OPEN_WALKS} AND least(d.check_at, d.page_at) < 'infinity' HAVING count(*) > 0`;

type StepRow = Omit<PageStep, 'step' | 'cursor' | 'claimToken'> &
  ListCursor & { state: CheckStep['state']; isCheck: boolean };

function toStep(row: StepRow, claimToken: string): WalkStep {
  const { walkId, kind, state, isCheck, beforeS, page, boundary, ...visit } = row;
  if (isCheck) return { step: 'check', walkId, kind, claimToken, state };
  return { step: 'page', walkId, kind, claimToken, cursor: { beforeS, page, boundary }, ...visit };
}

/**
 * Ends the claim inside the transaction that writes the result of a page. Call it before requests and items.
 * @throws WalkLostError when the claim was lost; the transaction must roll back
 */
export async function settlePage(
  tx: Queryable,
  claim: WalkClaim,
  added: { [figure in 'pages' | 'listed' | 'queued' | 'athletesListed' | 'athletesFailed']?: number } & {
    error?: string;
  },
): Promise<void> {
  const { pages = 0, listed = 0, queued = 0, athletesListed = 0, athletesFailed = 0, error = null } = added;
  const rows = await tx.query(
    `UPDATE list_walk SET claim_token = NULL, lease_until = '-infinity', pages = pages + $3, listed = listed + $4, queued = queued + $5,
       athletes_listed = athletes_listed + $6, athletes_failed = athletes_failed + $7, error = coalesce($8, error),
       check_due_at = CASE WHEN $6 + $7 > 0 AND kind = 'manual' THEN sync_now() ELSE check_due_at END
     WHERE id = $1 AND claim_token = $2 RETURNING CASE WHEN kind = 'manual' THEN pg_notify('activity_sync', 'sync:' || id) END`,
    [claim.walkId, claim.claimToken, pages, listed, queued, athletesListed, athletesFailed, error],
  );
  if (rows.length === 0) throw walkLost(claim);
}

/** Ends the claim; no page is read before `until`, undefined: at once. What another process has claimed since stays its own. */
export async function releaseWalk(database: Queryable, claim: WalkClaim, until?: Date): Promise<void> {
  await database.query(
    `UPDATE list_walk SET claim_token = NULL, lease_until = '-infinity', not_before = coalesce($3, not_before)
     WHERE id = $1 AND claim_token = $2`,
    [claim.walkId, claim.claimToken, until ?? null],
  );
}

/** Reading of the athlete's list continues from there. @throws WalkLostError */
export async function keepVisit(tx: Queryable, step: PageStep, next: ListCursor, knownInARow: number): Promise<void> {
  await changeVisit(
    tx,
    step,
    `UPDATE list_visit SET before_s = $3, page = $4, boundary = $5::bigint[], known_in_a_row = $6, failures = 0, not_before = '-infinity'`,
    [next.beforeS, next.page, next.boundary, knownInARow],
  );
}

/** The athlete is retried after a wait; the walk continues with others. @throws WalkLostError */
export async function snoozeVisit(tx: Queryable, step: PageStep, delayMs: number): Promise<void> {
  const snooze = `UPDATE list_visit SET failures = failures + 1, not_before = sync_now() + $3 * interval '1 ms'`;
  await changeVisit(tx, step, snooze, [delayMs]);
}

/** The walk has nothing left to read of the athlete's list. @throws WalkLostError */
export async function endVisit(tx: Queryable, step: PageStep): Promise<void> {
  await changeVisit(tx, step, 'DELETE FROM list_visit', []);
}

async function changeVisit(tx: Queryable, step: PageStep, change: string, values: readonly unknown[]): Promise<void> {
  const visits = await tx.query(`${change} WHERE walk_id = $1 AND athlete_id = $2 RETURNING walk_id`, [
    step.walkId,
    step.athleteId,
    ...values,
  ]);
  // An erasure deletes the athlete's visit: neither log nor walk may name them after that.
  if (visits.length === 0) throw new WalkLostError('The athlete was erased while their list was read.');
}

/** The error of a claim that ended before its step was settled. */
export function walkLost({ kind, walkId }: WalkClaim): WalkLostError {
  const walk = kind === 'polling' ? 'The polling sweep' : `Sync ${walkId}`;
  return new WalkLostError(`${walk} was cancelled or claimed by another process; nothing was written.`);
}
