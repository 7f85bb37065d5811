import type { Queryable } from '../infra/database.ts';

/** Marks a state as used, until it would be too old anyway. @returns false when it was used before */
export async function useOauthState(database: Queryable, nonce: string, expiresAt: Date): Promise<boolean> {
  await database.query('DELETE FROM used_oauth_state WHERE expires_at <= sync_now()', []);
  const rows = await database.query(
    'INSERT INTO used_oauth_state (nonce, expires_at) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING 1',
    [nonce, expiresAt],
  );
  return rows.length === 1;
}
