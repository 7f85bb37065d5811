import type { Clock } from '../domain/clock.ts';
import type { Queryable } from './database.ts';
import { PROCESS_LOCK_CLASS, type Presence } from './presence.ts';

// After a restart or a failover of the server every lock is gone: a live process notices within a
// heartbeat (7.5 s) and registers again.
const GRACE_MS = 10_000;
const CONFIRM_MS = 1000;

/**
 * Finds processes that died, by the locks that they no longer hold. No process is declared dead within 10 s of the
 * server's start or of this process's reconnect, and only when its lock is missing at two checks at least a second
 * apart. Each caller has a watch of its own.
 */
export class DeadProcessWatch {
  readonly #options: { database: Queryable; presence: Presence; clock: Clock; serverGraceMs?: number };
  #missingSince = new Map<number, number>();

  /** @param options.serverGraceMs how long after the server's start no process is declared dead */
  constructor(options: { database: Queryable; presence: Presence; clock: Clock; serverGraceMs?: number }) {
    this.#options = options;
  }

  /**
   * Checks once; call it every second or two while there is something to reclaim.
   * @param ids the processes of interest, e.g. those that hold claims
   * @returns those that are dead for certain
   */
  async look(ids: readonly number[]): Promise<number[]> {
    const { database, presence, clock, serverGraceMs } = this.#options;
    const { isRegistered, reconnectedAt } = presence;
    const isInTouch = isRegistered && (reconnectedAt === undefined || clock.now() - reconnectedAt >= GRACE_MS);
    const missing = isInTouch ? await findDeadProcesses(database, ids, serverGraceMs) : [];
    // The connection, and every lock with it, may have been lost before the answer arrived.
    if (!presence.isRegistered || presence.reconnectedAt !== reconnectedAt) missing.length = 0;
    const now = clock.now();
    this.#missingSince = new Map(missing.map((id) => [id, this.#missingSince.get(id) ?? now]));
    return missing.filter((id) => now - (this.#missingSince.get(id) ?? now) >= CONFIRM_MS);
  }
}

/**
 * The processes among `ids` that hold no lock as their sign of life, at this moment.
 * @param serverGraceMs none is returned while the server has been up for less
 */
export async function findDeadProcesses(
  database: Queryable,
  ids: readonly number[],
  serverGraceMs = GRACE_MS,
): Promise<number[]> {
  if (ids.length === 0) return [];
  const rows = await database.query<{ id: number }>(FIND_WITHOUT_LOCK, [ids, PROCESS_LOCK_CLASS, serverGraceMs]);
  return rows.map(({ id }) => id);
}

const FIND_WITHOUT_LOCK = `
  SELECT id FROM unnest($1::integer[]) AS p (id)
  WHERE clock_timestamp() - pg_postmaster_start_time() >= $3 * interval '1 ms'
    AND NOT EXISTS (
      SELECT FROM pg_locks l
      WHERE l.locktype = 'advisory' AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND l.classid = $2::integer::oid AND l.objid = p.id::oid AND l.objsubid = 2 AND l.granted)`;
