import { randomUUID } from 'node:crypto';
import type { Int64 } from '../domain/int64.ts';
import type { Database, Queryable } from '../infra/database.ts';
import { notify } from '../infra/notify.ts';

/** Where a visit stands; see ListCursor. */
export interface StoredCursor {
  beforeS: number;
  page: number;
  boundary: readonly Int64[];
}

/** One page to read: the sweep is claimed by `holder` until the lease ends. */
export interface SweepStep {
  holder: string;
  athleteId: Int64;
  /** Undefined at the start of the athlete's list. */
  cursor: StoredCursor | undefined;
  knownInARow: number;
  failures: number;
  /** Database time of the claim: the list that is read now is no older. */
  claimedAt: Date;
}

/** A sweep that has just ended. */
export interface SweepSummary {
  athletes: number;
  failed: number;
  queued: number;
  /** From its start to its end, in milliseconds. */
  tookMs: number;
}

export type SweepClaim = { step: SweepStep } | { finished: SweepSummary } | { waitMs: number };

/** The sweep is somebody else's now, or the athlete was erased: what was found must not be written. */
export class SweepLostError extends Error {
  override name = 'SweepLostError';
  readonly code = 'SWEEP_LOST';
}

/**
 * Claims the next page of the sweep under way; begins a sweep when one is due, ends it when nobody is
 * left to visit.
 * @param options.intervalMs from the end of a sweep to the start of the next
 * @param options.leaseMs after which a claim that was neither ended nor put off is free again
 */
export async function claimSweepStep(
  database: Database,
  options: { intervalMs: number; leaseMs: number },
): Promise<SweepClaim> {
  return database.transaction(async (tx) => {
    const [sweep] = await tx.query<{ under_way: boolean; wait_ms: number }>(LOOK, [options.intervalMs]);
    if (!sweep) throw new Error('polling_sweep has lost its row');
    if (sweep.wait_ms > 0) return { waitMs: sweep.wait_ms };
    if (!sweep.under_way) await beginSweep(tx);
    const [visit] = await tx.query<VisitRow>(NEXT_VISIT, []);
    if (!visit) return { finished: await finishSweep(tx) };
    if (visit.wait_ms > 0) return { waitMs: visit.wait_ms };
    const holder = randomUUID();
    await tx.query(`UPDATE polling_sweep SET holder = $1, lease_until = sync_now() + $2 * interval '1 ms'`, [
      holder,
      options.leaseMs,
    ]);
    return { step: toStep(visit, holder) };
  });
}

const LOOK = `
  SELECT started_at IS NOT NULL AS under_way,
    ceil(extract(epoch FROM greatest(sync_now(), lease_until, not_before,
      CASE WHEN started_at IS NULL THEN finished_at + $1 * interval '1 ms' END) - sync_now()) * 1000)::float8 AS wait_ms
  FROM polling_sweep FOR UPDATE`;

// An athlete who needs attention meanwhile is passed over.
const NEXT_VISIT = `
  SELECT v.athlete_id, v.before_s, v.page, v.boundary, v.known_in_a_row, v.failures, sync_now() AS claimed_at,
    ceil(extract(epoch FROM greatest(sync_now(), v.not_before) - sync_now()) * 1000)::float8 AS wait_ms
  FROM polling_visit v JOIN athlete a USING (athlete_id)
  WHERE a.state = 'healthy'
  ORDER BY v.not_before, v.athlete_id LIMIT 1`;

interface VisitRow {
  athlete_id: string;
  before_s: string | null;
  page: number;
  boundary: string[];
  known_in_a_row: number;
  failures: number;
  claimed_at: Date;
  wait_ms: number;
}

function toStep(row: VisitRow, holder: string): SweepStep {
  return {
    holder,
    athleteId: row.athlete_id,
    cursor:
      row.before_s === null ? undefined : { beforeS: Number(row.before_s), page: row.page, boundary: row.boundary },
    knownInARow: row.known_in_a_row,
    failures: row.failures,
    claimedAt: row.claimed_at,
  };
}

async function beginSweep(tx: Queryable): Promise<void> {
  await tx.query('DELETE FROM polling_visit', []);
  const visits = await tx.query(
    `INSERT INTO polling_visit (athlete_id) SELECT athlete_id FROM athlete WHERE state = 'healthy' ORDER BY athlete_id
     RETURNING athlete_id`,
    [],
  );
  await tx.query('UPDATE polling_sweep SET started_at = sync_now(), athletes = $1, failed = 0, queued = 0', [
    visits.length,
  ]);
}

async function finishSweep(tx: Queryable): Promise<SweepSummary> {
  await tx.query('DELETE FROM polling_visit', []);
  const [summary] = await tx.query<SweepSummary>(
    `WITH ended AS (SELECT * FROM polling_sweep), finished AS (
       UPDATE polling_sweep SET started_at = NULL, finished_at = sync_now(), holder = NULL, lease_until = '-infinity'
     )
     SELECT athletes, failed, queued, (extract(epoch FROM sync_now() - started_at) * 1000)::float8 AS "tookMs" FROM ended`,
    [],
  );
  await notify(tx, 'polling');
  return summary as SweepSummary;
}

/**
 * Frees the claim inside the transaction that writes what was found.
 * @throws SweepLostError when the claim ended meanwhile; the transaction must roll back
 */
export async function settleSweepStep(tx: Queryable, step: SweepStep, queued: number): Promise<void> {
  const rows = await tx.query(
    `UPDATE polling_sweep SET holder = NULL, lease_until = '-infinity', queued = queued + $2 WHERE holder = $1 RETURNING one_row`,
    [step.holder, queued],
  );
  if (rows.length === 0)
    throw new SweepLostError('The sweep was taken over by another process; its page is read again.');
}

/** Frees the claim; nobody reads a page before then. Without a time the page is free at once. */
export async function putOffSweep(database: Queryable, step: SweepStep, until?: Date): Promise<void> {
  await database.query(
    `UPDATE polling_sweep SET holder = NULL, lease_until = '-infinity', not_before = coalesce($2, not_before) WHERE holder = $1`,
    [step.holder, until ?? null],
  );
}

/** The athlete's walk goes on from there. */
export async function keepVisit(
  tx: Queryable,
  step: SweepStep,
  cursor: StoredCursor,
  knownInARow: number,
): Promise<void> {
  await tx.query(
    `UPDATE polling_visit SET before_s = $2, page = $3, boundary = $4::bigint[], known_in_a_row = $5, failures = 0, not_before = '-infinity'
     WHERE athlete_id = $1`,
    [step.athleteId, cursor.beforeS, cursor.page, cursor.boundary, knownInARow],
  );
}

/** The athlete is tried again after a wait; the sweep goes on with others. @throws SweepLostError */
export async function putOffVisit(tx: Queryable, step: SweepStep, delayMs: number): Promise<void> {
  const visits = await tx.query(
    `UPDATE polling_visit SET failures = failures + 1, not_before = sync_now() + $2 * interval '1 ms' WHERE athlete_id = $1
     RETURNING athlete_id`,
    [step.athleteId, delayMs],
  );
  mustBeThere(visits);
}

/** The sweep is through with the athlete. @param gaveUp the list could not be read @throws SweepLostError */
export async function endVisit(tx: Queryable, step: SweepStep, gaveUp: boolean): Promise<void> {
  if (gaveUp) await tx.query('UPDATE polling_sweep SET failed = failed + 1', []);
  const visits = await tx.query('DELETE FROM polling_visit WHERE athlete_id = $1 RETURNING athlete_id', [
    step.athleteId,
  ]);
  mustBeThere(visits);
}

// Their visit goes with an athlete who is erased: the log must not name them after that.
function mustBeThere(visits: readonly object[]): void {
  if (visits.length === 0) throw new SweepLostError('The athlete was erased while their list was read.');
}

/** When the last sweep finished, in seconds since the epoch; 0 when none has. */
export async function findLastSweepEnd(database: Queryable): Promise<number> {
  const [row] = await database.query<{ at: number | null }>(
    `SELECT extract(epoch FROM finished_at)::float8 AS at FROM polling_sweep WHERE finished_at > '-infinity'`,
    [],
  );
  return row?.at ?? 0;
}
