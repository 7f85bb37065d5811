import type { Queryable } from '../infra/database.ts';

/** Keeps a browser session, and removes those that are over. @param lifetimeMs from now on */
export async function saveSession(
  database: Queryable,
  session: { idHash: Buffer; access: 'admin' | 'read'; lifetimeMs: number },
): Promise<void> {
  await database.query('DELETE FROM browser_session WHERE expires_at <= sync_now()', []);
  await database.query(
    `INSERT INTO browser_session (id_hash, access, expires_at) VALUES ($1, $2, sync_now() + $3 * interval '1 ms')`,
    [session.idHash, session.access, session.lifetimeMs],
  );
}

/** What the session of one of these hashes may do; undefined when there is none, or it is over. */
export async function findSession(
  database: Queryable,
  idHashes: readonly Buffer[],
): Promise<'admin' | 'read' | undefined> {
  const [row] = await database.query<{ access: 'admin' | 'read' }>(
    'SELECT access FROM browser_session WHERE id_hash = ANY ($1) AND expires_at > sync_now()',
    [idHashes],
  );
  return row?.access;
}

export async function deleteSession(database: Queryable, idHashes: readonly Buffer[]): Promise<void> {
  await database.query('DELETE FROM browser_session WHERE id_hash = ANY ($1)', [idHashes]);
}
