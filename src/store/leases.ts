import type { Queryable } from '../infra/database.ts';

/** Housekeeping that one process does for all. Kept in the table `duty`. */
export type Lease = 'metrics' | 'retention' | 'subscription';

/**
 * Takes or renews a lease.
 * @param holder names the process
 * @param forMs until when no other process may take it, unless it is released before
 * @returns whether this process holds it now
 */
export async function holdLease(database: Queryable, lease: Lease, holder: string, forMs: number): Promise<boolean> {
  const rows = await database.query(
    `INSERT INTO duty (name, holder, held_until) VALUES ($1, $2, sync_clock() + $3 * interval '1 ms')
     ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, held_until = excluded.held_until
       WHERE duty.holder = excluded.holder OR duty.held_until <= sync_clock()
     RETURNING name`,
    [lease, holder, forMs],
  );
  return rows.length === 1;
}

export async function releaseLease(database: Queryable, lease: Lease, holder: string): Promise<void> {
  await database.query('DELETE FROM duty WHERE name = $1 AND holder = $2', [lease, holder]);
}
