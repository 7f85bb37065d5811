import type { ChangeType } from '../domain/change.ts';
import type { Int64 } from '../domain/int64.ts';
import type { Queryable } from '../infra/database.ts';

/** Something that an application must know. */
export interface NewChange {
  type: ChangeType;
  athleteId?: Int64 | undefined;
  activityId?: Int64 | undefined;
  endpointId?: Int64 | undefined;
}

/**
 * Records changes for the feed inside the transaction that makes them true: they are stored exactly when it commits.
 * They are numbered at that commit, so the call may be anywhere in the transaction. The athlete's external id is
 * read here: record an athlete's last change before their row is deleted.
 */
export async function recordChanges(tx: Queryable, changes: readonly NewChange[]): Promise<void> {
  if (changes.length === 0) return;
  await tx.query('SELECT record_changes($1::text[], $2::bigint[], $3::bigint[], $4::bigint[])', [
    changes.map(({ type }) => type),
    changes.map(({ athleteId }) => athleteId ?? null),
    changes.map(({ activityId }) => activityId ?? null),
    changes.map(({ endpointId }) => endpointId ?? null),
  ]);
}

/** A change as the feed has it; `cursor` is its position. */
export interface ChangeRow {
  cursor: string;
  id: string;
  type: ChangeType;
  at: Date;
  athleteId: Int64 | null;
  externalId: string | null;
  activityId: Int64 | null;
  endpointId: Int64 | null;
}

/** A part of the feed. */
export interface ChangePage {
  changes: ChangeRow[];
  /** Where to continue: behind the last row, or behind everything that the filters skipped. */
  nextCursor: string;
}

/** The cursor is older than the retention: changes behind it have been deleted. */
export class CursorExpiredError extends Error {
  override name = 'CursorExpiredError';
  readonly code = 'CURSOR_EXPIRED';
}

/** A cursor that the feed has not reached: it belongs to another database, or is invented. */
export class CursorUnknownError extends Error {
  override name = 'CursorUnknownError';
  readonly code = 'CURSOR_UNKNOWN';
}

/**
 * Reads the feed behind a cursor, in commit order.
 * @param options.after undefined: from the oldest change that is kept; 'latest': behind the newest
 * @throws CursorExpiredError, CursorUnknownError
 */
export async function readChanges(
  database: Queryable,
  options: {
    after: string | undefined;
    types?: readonly ChangeType[] | undefined;
    athleteId?: Int64 | undefined;
    limit: number;
  },
): Promise<ChangePage> {
  // One statement, one snapshot: the newest position belongs to the rows.
  const rows = await database.query<
    { newest: string; keptAfter: string } & { [K in keyof ChangeRow]: ChangeRow[K] | null }
  >(
    `SELECT f.position AS newest, f.kept_after AS "keptAfter", c.position AS cursor, c.id, c.type, c.at, c.athlete_id AS "athleteId",
       c.external_id AS "externalId", c.activity_id AS "activityId", c.endpoint_id AS "endpointId"
     FROM change_feed f LEFT JOIN LATERAL (
       SELECT * FROM change
       WHERE position > coalesce($1::bigint, f.kept_after) AND ($2::text[] IS NULL OR type = ANY ($2)) AND ($3::bigint IS NULL OR athlete_id = $3)
       ORDER BY position LIMIT $4
     ) c ON true ORDER BY c.position`,
    [
      options.after === 'latest' ? '9223372036854775807' : (options.after ?? null),
      options.types ?? null,
      options.athleteId ?? null,
      options.limit,
    ],
  );
  const [first] = rows;
  if (!first) throw new Error('The table change_feed has lost its row; restore the database from a backup.');
  if (options.after !== undefined && options.after !== 'latest') {
    if (BigInt(options.after) < BigInt(first.keptAfter))
      throw new CursorExpiredError(`Changes up to ${first.keptAfter} are no longer kept.`);
    if (BigInt(options.after) > BigInt(first.newest))
      throw new CursorUnknownError(`The newest change is ${first.newest}.`);
  }
  const changes = rows
    .filter((row): row is { newest: string; keptAfter: string } & ChangeRow => row.cursor !== null)
    .map(({ newest: _newest, keptAfter: _keptAfter, ...change }) => change);
  const last = changes.at(-1);
  return { changes, nextCursor: last !== undefined && changes.length === options.limit ? last.cursor : first.newest };
}

/**
 * Removes a batch of the oldest changes that are older than `before`; cursors before them have expired from then on.
 * @returns how many rows; 0 when nothing is left
 */
export async function deleteOldChanges(tx: Queryable, before: Date): Promise<number> {
  const rows = await tx.query(
    `WITH old AS (
       DELETE FROM change WHERE position IN (
         SELECT position FROM (SELECT position, at FROM change WHERE position IS NOT NULL ORDER BY position LIMIT 1000) oldest WHERE at < $1)
       RETURNING position
     ), kept AS (
       UPDATE change_feed SET kept_after = greatest(kept_after, (SELECT max(position) FROM old)) WHERE EXISTS (SELECT FROM old)
     )
     SELECT FROM old`,
    [before],
  );
  return rows.length;
}
