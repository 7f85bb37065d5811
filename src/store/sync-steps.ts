import { randomUUID } from 'node:crypto';
import type { Int64 } from '../domain/int64.ts';
import type { Database, Queryable } from '../infra/database.ts';
import type { StoredCursor } from './polling-sweep.ts';
import { notifyOfSync } from './syncs.ts';

/** The claim of a sync for one step. */
export interface SyncClaim {
  syncId: Int64;
  holder: string;
}

/** One page to read. */
export interface PageStep extends SyncClaim {
  kind: 'page';
  athleteId: Int64;
  afterS: number | null;
  force: boolean;
  cursor: StoredCursor;
  failures: number;
}

/** Time to count what was fetched, or to remove what a cancelled sync queued. */
export interface CountStep extends SyncClaim {
  kind: 'count' | 'clear';
}

export type SyncStep = PageStep | CountStep;

/** The sync is another process's now, or was cancelled or erased: what was found must not be written. */
export class SyncLostError extends Error {
  override name = 'SyncLostError';
  readonly code = 'SYNC_LOST';
}

/**
 * Claims the next step of the sync that has waited longest for one.
 * @param leaseMs after which a claim that was neither ended nor put off is free again
 */
export async function claimSyncStep(
  database: Database,
  leaseMs: number,
): Promise<{ step: SyncStep } | { waitMs: number | undefined }> {
  return database.transaction(async (tx) => {
    for (;;) {
      const [sync] = await tx.query<SyncRow>(NEXT_SYNC, []);
      if (!sync) {
        const [next] = await tx.query<{ wait_ms: number | null }>(NEXT_DUE, []);
        return { waitMs: next?.wait_ms ?? undefined };
      }
      const claim = { syncId: sync.id, holder: randomUUID() };
      if (sync.kind === 'page') {
        const [walk] = await tx.query<WalkRow>(NEXT_WALK, [sync.id]);
        if (!walk?.due) {
          await tx.query(SLEEP_UNTIL_NEXT_WALK, [sync.id]);
          continue;
        }
        await holdSync(tx, claim, leaseMs);
        return { step: { ...claim, kind: 'page', ...toPage(sync, walk) } };
      }
      await holdSync(tx, claim, leaseMs);
      return { step: { ...claim, kind: sync.state === 'cancelled' ? 'clear' : 'count' } };
    }
  });
}

const NEXT_SYNC = `
  SELECT id, state, after_s::float8 AS after_s, force,
    CASE WHEN list_due_at <= least(count_due_at, sync_now()) THEN 'page' ELSE 'count' END AS kind
  FROM manual_sync
  WHERE count_due_at IS NOT NULL AND lease_until <= sync_now() AND least(list_due_at, count_due_at) <= sync_now()
  ORDER BY stepped_at LIMIT 1 FOR UPDATE SKIP LOCKED`;

const NEXT_DUE = `
  SELECT ceil(extract(epoch FROM greatest(sync_now() + interval '25 ms', min(greatest(least(list_due_at, count_due_at), lease_until)))
    - sync_now()) * 1000)::float8 AS wait_ms
  FROM manual_sync WHERE count_due_at IS NOT NULL HAVING count(*) > 0`;

const NEXT_WALK = `
  SELECT athlete_id, before_s, page, boundary, failures, not_before <= sync_now() AS due
  FROM manual_sync_walk WHERE sync_id = $1 ORDER BY not_before, athlete_id LIMIT 1`;

// The time stays in the database: a Date has no microseconds, and rounded down it would be due at once, again and again.
const SLEEP_UNTIL_NEXT_WALK = `
  UPDATE manual_sync SET list_due_at = (SELECT min(not_before) FROM manual_sync_walk WHERE sync_id = $1) WHERE id = $1`;

interface SyncRow {
  id: string;
  state: string;
  after_s: number | null;
  force: boolean;
  kind: 'page' | 'count';
}

interface WalkRow {
  athlete_id: string;
  before_s: string;
  page: number;
  boundary: string[];
  failures: number;
  due: boolean;
}

function toPage(sync: SyncRow, walk: WalkRow) {
  return {
    athleteId: walk.athlete_id,
    afterS: sync.after_s,
    force: sync.force,
    cursor: { beforeS: Number(walk.before_s), page: walk.page, boundary: walk.boundary },
    failures: walk.failures,
  };
}

async function holdSync(tx: Queryable, claim: SyncClaim, leaseMs: number): Promise<void> {
  await tx.query(
    `UPDATE manual_sync SET holder = $2, lease_until = sync_now() + $3 * interval '1 ms', stepped_at = sync_now() WHERE id = $1`,
    [claim.syncId, claim.holder, leaseMs],
  );
}

/**
 * Frees the claim inside the transaction that writes what was found on a page.
 * @throws SyncLostError when the claim ended meanwhile; the transaction must roll back
 */
export async function settleSyncPage(
  tx: Queryable,
  claim: SyncClaim,
  found: { listed: number; queued: number },
): Promise<void> {
  const rows = await tx.query(
    `UPDATE manual_sync SET holder = NULL, lease_until = '-infinity', pages = pages + 1, listed = listed + $3, queued = queued + $4,
       list_due_at = sync_now()
     WHERE id = $1 AND holder = $2 AND state = 'running' RETURNING id`,
    [claim.syncId, claim.holder, found.listed, found.queued],
  );
  if (rows.length === 0) throw new SyncLostError(`Sync ${claim.syncId} was cancelled or taken over meanwhile.`);
  await notifyOfSync(tx, claim.syncId);
}

/** Frees the claim; no page is read before then. Without a time the sync is free at once. */
export async function putOffSync(database: Queryable, claim: SyncClaim, until?: Date): Promise<void> {
  await database.query(
    `UPDATE manual_sync SET holder = NULL, lease_until = '-infinity', list_due_at = coalesce($3, list_due_at)
     WHERE id = $1 AND holder = $2`,
    [claim.syncId, claim.holder, until ?? null],
  );
}

/** The athlete's walk goes on from there. */
export async function keepWalk(tx: Queryable, step: PageStep, cursor: StoredCursor): Promise<void> {
  await tx.query(
    `UPDATE manual_sync_walk SET before_s = $3, page = $4, boundary = $5::bigint[], failures = 0, not_before = '-infinity'
     WHERE sync_id = $1 AND athlete_id = $2`,
    [step.syncId, step.athleteId, cursor.beforeS, cursor.page, cursor.boundary],
  );
}

/** The athlete's list is read. */
export async function endWalk(tx: Queryable, step: PageStep): Promise<void> {
  await tx.query(
    'UPDATE manual_sync SET athletes_listed = athletes_listed + 1, count_due_at = sync_now() WHERE id = $1',
    [step.syncId],
  );
  await tx.query('DELETE FROM manual_sync_walk WHERE sync_id = $1 AND athlete_id = $2', [step.syncId, step.athleteId]);
}

/** The athlete's list cannot be read: the sync ends without it. @throws SyncLostError */
export async function giveUpWalk(tx: Queryable, step: PageStep, error: string): Promise<void> {
  await failStep(tx, step, error, 1);
  const walks = await tx.query(
    'DELETE FROM manual_sync_walk WHERE sync_id = $1 AND athlete_id = $2 RETURNING athlete_id',
    [step.syncId, step.athleteId],
  );
  mustBeThere(walks);
}

/** The athlete's list is tried again after a wait; the sync goes on with others. @throws SyncLostError */
export async function putOffWalk(tx: Queryable, step: PageStep, error: string, delayMs: number): Promise<void> {
  await failStep(tx, step, error, 0);
  const walks = await tx.query(
    `UPDATE manual_sync_walk SET failures = failures + 1, not_before = sync_now() + $3 * interval '1 ms'
     WHERE sync_id = $1 AND athlete_id = $2 RETURNING athlete_id`,
    [step.syncId, step.athleteId, delayMs],
  );
  mustBeThere(walks);
}

// Its walk goes with an athlete who is erased: the sync must not name them after that.
function mustBeThere(walks: readonly object[]): void {
  if (walks.length === 0) throw new SyncLostError('The athlete was erased while their list was read.');
}

async function failStep(tx: Queryable, step: PageStep, error: string, athletesFailed: number): Promise<void> {
  const rows = await tx.query(
    `UPDATE manual_sync SET holder = NULL, lease_until = '-infinity', error = $3, athletes_failed = athletes_failed + $4,
       list_due_at = sync_now(), count_due_at = CASE WHEN $4 > 0 THEN sync_now() ELSE count_due_at END
     WHERE id = $1 AND holder = $2 RETURNING id`,
    [step.syncId, step.holder, error, athletesFailed],
  );
  if (rows.length === 0) throw new SyncLostError(`Sync ${step.syncId} was cancelled or taken over meanwhile.`);
}
