import type { Int64 } from '../domain/int64.ts';
import type { Queryable } from '../infra/database.ts';

/** A change that an operator or an application made. */
export interface AuditEntry {
  id: Int64;
  at: Date;
  /** The admin token, the read token (which can only sign in), a browser session, an application's token, or a minute's wrong tokens. */
  who: 'admin' | 'read' | 'session' | 'application' | 'nobody';
  action: string;
  target: string | null;
  detail: Record<string, unknown>;
  /** HTTP status of the answer; null when the change did not finish. */
  status: number | null;
}

/** @returns the entry's id */
export async function beginAuditEntry(
  database: Queryable,
  entry: {
    who: AuditEntry['who'];
    action: string;
    target?: string | undefined;
    detail: Record<string, unknown>;
    athleteId?: Int64 | undefined;
    /** If it is already known. */
    status?: number;
  },
): Promise<Int64> {
  const [row] = await database.query<{ id: string }>(
    `INSERT INTO audit_entry (who, action, target, detail, athlete_id, status) VALUES ($1, $2, $3, $4::text::jsonb, $5, $6) RETURNING id`,
    [
      entry.who,
      entry.action,
      entry.target ?? null,
      JSON.stringify(entry.detail),
      entry.athleteId ?? null,
      entry.status ?? null,
    ],
  );
  return (row as { id: string }).id;
}

/** Adds the result, inside the caller's transaction. Writes nothing about an athlete who was erased in the meantime. */
export async function endAuditEntry(
  tx: Queryable,
  id: Int64,
  result: {
    status: number;
    target?: string | undefined;
    detail?: Record<string, unknown>;
    athleteId?: Int64 | undefined;
  },
): Promise<void> {
  const { status, target, detail, athleteId } =
    result.athleteId === undefined || (await keepEntries(tx, result.athleteId)) ? result : { status: result.status };
  await tx.query(
    `UPDATE audit_entry SET status = $2, target = coalesce($3, target), detail = detail || $4::text::jsonb, athlete_id = coalesce($5, athlete_id)
     WHERE id = $1`,
    [id, status, target ?? null, JSON.stringify(detail ?? {}), athleteId ?? null],
  );
}

/**
 * Keeps an athlete's entries from being emptied until the transaction ends. The athlete's own rows stay free: a claim
 * passes over an athlete who is locked.
 * @returns false when nothing is known of them
 */
async function keepEntries(tx: Queryable, athleteId: Int64): Promise<boolean> {
  await tx.query(`SELECT pg_advisory_xact_lock_shared(${ENTRIES_OF})`, [athleteId]);
  const rows = await tx.query(
    `SELECT FROM athlete_schedule WHERE athlete_id = $1 UNION ALL SELECT FROM athlete WHERE athlete_id = $1`,
    [athleteId],
  );
  return rows.length > 0;
}

const ENTRIES_OF = `hashtextextended('activity-sync audit of ' || $1::bigint, 0)`;

/** Entries, newest first. @param beforeId the id of the last entry of the page before */
export async function listAuditEntries(
  database: Queryable,
  options: { beforeId?: Int64 | undefined; limit: number },
): Promise<AuditEntry[]> {
  return database.query<AuditEntry>(
    `SELECT id, at, who, action, target, detail, status FROM audit_entry
     WHERE id < coalesce($1::bigint, 9223372036854775807) ORDER BY id DESC LIMIT $2`,
    [options.beforeId ?? null, options.limit],
  );
}

/**
 * Empties the entries about an athlete who is erased, inside the caller's transaction: what was done stays, with the
 * name of the application's token; the athlete's details go.
 */
export async function forgetAthleteInAudit(tx: Queryable, athleteId: Int64): Promise<void> {
  await tx.query(`SELECT pg_advisory_xact_lock(${ENTRIES_OF})`, [athleteId]);
  await tx.query(
    `UPDATE audit_entry SET target = NULL, detail = jsonb_strip_nulls(jsonb_build_object('token', detail->'token')), athlete_id = NULL
     WHERE athlete_id = $1`,
    [athleteId],
  );
}
