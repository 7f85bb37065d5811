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
  /** Since when it is refused. */
  revokedAt: Date | null;
}

const COLUMNS = 'id, name, scope, created_at AS "createdAt", last_used_at AS "lastUsedAt", revoked_at AS "revokedAt"';

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

/** All tokens, including revoked ones, oldest first. */
export async function listApiTokens(database: Queryable): Promise<ApiTokenRow[]> {
  return database.query<ApiTokenRow>(`SELECT ${COLUMNS} FROM api_token ORDER BY id`, []);
}

/** @returns false when there is no such token, or it was revoked before */
export async function revokeApiToken(database: Queryable, id: Int64): Promise<boolean> {
  const rows = await database.query(
    'UPDATE api_token SET revoked_at = sync_now() WHERE id = $1 AND revoked_at IS NULL RETURNING id',
    [id],
  );
  return rows.length === 1;
}

/** Finds the token with this digest and records its use; undefined when there is none or it was revoked. */
export async function findApiToken(
  database: Queryable,
  digest: Buffer,
): Promise<{ id: Int64; name: string; scope: TokenScope } | undefined> {
  const [row] = await database.query<{ id: Int64; name: string; scope: TokenScope; noted: boolean }>(
    `SELECT id, name, scope, coalesce(last_used_at > sync_now() - interval '1 minute', false) AS noted
     FROM api_token WHERE digest = $1 AND revoked_at IS NULL`,
    [digest],
  );
  if (row && !row.noted) await database.query('UPDATE api_token SET last_used_at = sync_now() WHERE id = $1', [row.id]);
  return row && { id: row.id, name: row.name, scope: row.scope };
}
