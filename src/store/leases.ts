import type { Queryable } from '../infra/database.ts';

/** Housekeeping that one process does for all. */
export type Duty = 'metrics' | 'retention';

/**
 * Takes or renews a duty.
 * @param holder names the process
 * @param forMs until when nobody else may take it, unless it is left before
 * @returns whether this process has it now
 */
export async function holdDuty(database: Queryable, duty: Duty, holder: string, forMs: number): Promise<boolean> {
  const rows = await database.query(
    `INSERT INTO duty (name, holder, held_until) VALUES ($1, $2, sync_clock() + $3 * interval '1 ms')
     ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, held_until = excluded.held_until
       WHERE duty.holder = excluded.holder OR duty.held_until <= sync_clock()
     RETURNING name`,
    [duty, holder, forMs],
  );
  return rows.length === 1;
}

export async function leaveDuty(database: Queryable, duty: Duty, holder: string): Promise<void> {
  await database.query('DELETE FROM duty WHERE name = $1 AND holder = $2', [duty, holder]);
}
