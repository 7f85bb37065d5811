import type { Int64 } from '../domain/int64.ts';
import type { Queryable } from '../infra/database.ts';
import type { Requester } from './fetch-requests.ts';

/** Of jobs; deliveries are replayed. */
export const JOB_ACTIONS = ['retry', 'force', 'delete'] as const;
export type JobAction = (typeof JOB_ACTIONS)[number];
export const BULK_ACTIONS = [...JOB_ACTIONS, 'replay'] as const;
export type BulkAction = (typeof BULK_ACTIONS)[number];
export const BULK_STATES = ['running', 'finished', 'cancelled', 'interrupted', 'failed'] as const;
export type BulkState = (typeof BULK_STATES)[number];

/** A change of many jobs, or a replay of many deliveries, that runs in the background. */
export interface BulkChange {
  id: Int64;
  action: BulkAction;
  filter: Record<string, unknown>;
  by: Requester;
  /** Jobs that matched at the start. */
  total: number;
  changed: number;
  /** `interrupted`: its process stopped or died; the rest is unchanged. */
  state: BulkState;
  error: string | null;
  startedAt: Date;
  finishedAt: Date | null;
}

const KEPT = 100;

/** Writes down a change that starts, and forgets the oldest. @returns its id */
export async function addBulkChange(
  tx: Queryable,
  change: Pick<BulkChange, 'action' | 'filter' | 'by' | 'total'> & { athleteId: Int64 | undefined },
): Promise<Int64> {
  const { action, filter, by, total, athleteId } = change;
  const [row] = await tx.query<{ id: string }>(
    `INSERT INTO bulk_change (action, filter, athlete_id, requested_by, total) VALUES ($1, $2::text::jsonb, $3, $4, $5) RETURNING id`,
    [action, JSON.stringify(filter), athleteId ?? null, by, total],
  );
  const { id } = row as { id: string };
  await tx.query(`DELETE FROM bulk_change WHERE id <= $1::bigint - ${KEPT} AND finished_at IS NOT NULL`, [id]);
  return id;
}

/** Writes how far a change came. @returns whether it goes on: not if it was cancelled, or its athlete erased */
export async function stepBulkChange(database: Queryable, id: Int64, changed: number): Promise<boolean> {
  const [row] = await database.query<{ cancels: boolean }>(
    'UPDATE bulk_change SET changed = $2, stepped_at = sync_now() WHERE id = $1 RETURNING cancels',
    [id, changed],
  );
  return row !== undefined && !row.cancels;
}

export async function endBulkChange(
  database: Queryable,
  id: Int64,
  end: { state: BulkState; error?: string },
): Promise<void> {
  await database.query('UPDATE bulk_change SET state = $2, error = $3, finished_at = sync_now() WHERE id = $1', [
    id,
    end.state,
    end.error ?? null,
  ]);
}

/** Asks a running change to end behind its current batch. @returns false when none of this id is running */
export async function cancelBulkChange(database: Queryable, id: Int64): Promise<boolean> {
  const rows = await database.query(
    `UPDATE bulk_change SET cancels = true WHERE id = $1 AND state = 'running' RETURNING id`,
    [id],
  );
  return rows.length > 0;
}

// A batch takes seconds: the process of one that has not stepped for a minute has died.
const SEEN = `id, action, filter, requested_by AS by, total, changed,
  CASE WHEN state = 'running' AND stepped_at < sync_now() - interval '1 minute' THEN 'interrupted' ELSE state END AS state,
  error, started_at AS "startedAt", finished_at AS "finishedAt"`;

/** The newest changes, newest first. */
export async function listBulkChanges(database: Queryable, limit: number): Promise<BulkChange[]> {
  return database.query<BulkChange>(`SELECT ${SEEN} FROM bulk_change ORDER BY id DESC LIMIT $1`, [limit]);
}
