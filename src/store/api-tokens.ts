import type { Int64 } from '../domain/int64.ts';
import type { Queryable } from '../infra/database.ts';

/** What the holder of a token may do; write includes read. */
export const TOKEN_SCOPES = ['read', 'write'] as const;
export type TokenScope = (typeof TOKEN_SCOPES)[number];

/** A token of an application, without the token itself: only its digest is kept. */
export interface ApiTokenRow {
  id: Int64;
  name: string;
  scope: TokenScope;
  createdAt: Date;
  /** To within a minute; null when it was never used. */
  lastUsedAt: Date | null;
}

const COLUMNS = 'id, name, scope, created_at AS "createdAt", last_used_at AS "lastUsedAt"';

/** @param token.digest SHA-256 of the token */
export async function saveApiToken(
  database: Queryable,
  token: { name: string; scope: TokenScope; digest: Buffer },
): Promise<ApiTokenRow> {
  const [row] = await database.query<ApiTokenRow>(
    `INSERT INTO api_token (name, scope, digest) VALUES ($1, $2, $3) RETURNING ${COLUMNS}`,
    [token.name, token.scope, token.digest],
  );
  return row as ApiTokenRow;
}

/** All valid tokens, oldest first. */
export async function listApiTokens(database: Queryable): Promise<ApiTokenRow[]> {
  return database.query<ApiTokenRow>(`SELECT ${COLUMNS} FROM api_token ORDER BY id`, []);
}

/** @returns whether there was such a token */
export async function deleteApiToken(database: Queryable, id: Int64): Promise<boolean> {
  return (await database.query('DELETE FROM api_token WHERE id = $1 RETURNING id', [id])).length === 1;
}

/** Finds the token with this digest and records its use; undefined when there is none or it was revoked. */
export async function findApiToken(
  database: Queryable,
  digest: Buffer,
): Promise<{ id: Int64; scope: TokenScope } | undefined> {
  const [row] = await database.query<{ id: Int64; scope: TokenScope; noted: boolean }>(
    `SELECT id, scope, coalesce(last_used_at > sync_now() - interval '1 minute', false) AS noted FROM api_token WHERE digest = $1`,
    [digest],
  );
  if (row && !row.noted) await database.query('UPDATE api_token SET last_used_at = sync_now() WHERE id = $1', [row.id]);
  return row && { id: row.id, scope: row.scope };
}
