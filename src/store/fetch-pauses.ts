import type { Reason } from '../domain/job.ts';
import type { Queryable } from '../infra/database.ts';
import { notify } from '../infra/notify.ts';

/** What can be paused: one reason, or all of them. */
export type PausedReason = Reason | 'all';

/** Fetching that an operator has paused. */
export interface FetchPause {
  reason: PausedReason;
  pausedBy: string;
  pausedAt: Date;
  note: string;
}

/** The pauses in force, oldest first. */
export async function listPauses(database: Queryable): Promise<FetchPause[]> {
  return database.query<FetchPause>(
    'SELECT reason, paused_by AS "pausedBy", paused_at AS "pausedAt", note FROM fetch_pause ORDER BY paused_at, reason',
    [],
  );
}

/** Pauses fetching inside the caller's transaction. Running fetches continue. @returns false when it was already paused */
export async function pauseFetching(tx: Queryable, pause: Omit<FetchPause, 'pausedAt'>): Promise<boolean> {
  const added = await tx.query(
    'INSERT INTO fetch_pause (reason, paused_by, note) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING RETURNING reason',
    [pause.reason, pause.pausedBy, pause.note],
  );
  await notify(tx, 'budget');
  return added.length > 0;
}

/** Resumes fetching inside the caller's transaction, and wakes the workers. @returns false when it was not paused */
export async function resumeFetching(tx: Queryable, reason: PausedReason): Promise<boolean> {
  const removed = await tx.query('DELETE FROM fetch_pause WHERE reason = $1 RETURNING reason', [reason]);
  await notify(tx, 'budget');
  return removed.length > 0;
}
