import { hostname } from 'node:os';
import type pg from 'pg';
import type { Clock } from '../domain/clock.ts';

/** First key of the advisory locks that processes hold; the second is the process id. */
export const PROCESS_LOCK_CLASS = 0x70726f63; // "proc"

const LEAVE_MS = 1000;

// A host that vanishes is detected after 15 s without data on the wire, after at most 30 s with it: the keepalive
// does not run while something sent waits for its acknowledgement, and notifications are sent all the time.
const NOTICE_VANISHED_HOST = `
  SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 4; SET tcp_user_timeout = 15000`;

/**
 * This process's sign of life: a row in `process`, and a session advisory lock of its id on the LISTEN
 * connection. The server drops the lock with the connection, however the process ended. The lock is shared,
 * so that an old session of our own that the server still keeps does not block the new one.
 */
export class Presence {
  readonly #clock: Clock;
  readonly #values: [host: string, pid: number, roles: readonly string[], version: string];
  #processId: number | undefined;
  #isRegistered = false;
  #reconnectedAt: number | undefined;

  constructor(options: { clock: Clock; roles: readonly string[]; version: string }) {
    this.#clock = options.clock;
    this.#values = [hostname(), process.pid, options.roles, options.version];
  }

  /** Undefined before the first connection; kept for the life of the process. */
  get processId(): number | undefined {
    return this.#processId;
  }

  /** True while the lock is held, as far as this process can know. Claim nothing without it. */
  get isRegistered(): boolean {
    return this.#isRegistered;
  }

  /** When the current connection was made, by the clock; undefined while it is the first one. */
  get reconnectedAt(): number | undefined {
    return this.#reconnectedAt;
  }

  /** Registers the process, on the first connection and on each after it. */
  async register(client: pg.Client): Promise<void> {
    const isFirst = this.#processId === undefined;
    await client.query(NOTICE_VANISHED_HOST);
    if (isFirst) {
      await client.query(REMOVE_OLD);
      const { rows } = await client.query<{ process_id: number }>(INSERT, this.#values);
      this.#processId = rows[0]?.process_id;
    } else await this.heartbeat(client);
    await client.query('SELECT pg_advisory_lock_shared($1, $2)', [PROCESS_LOCK_CLASS, this.#processId]);
    if (!isFirst) this.#reconnectedAt = this.#clock.now();
    this.#isRegistered = true;
  }

  /** Records that the process is alive; creates the row if it is missing. */
  async heartbeat(client: pg.Client): Promise<void> {
    await client.query(UPSERT, [this.#processId, ...this.#values]);
  }

  /** The connection is lost, and the lock with it. */
  lose(): void {
    this.#isRegistered = false;
  }

  /** The process ends normally: nothing names it any more. The lock ends with the connection. */
  async leave(client: pg.Client): Promise<void> {
    this.#isRegistered = false;
    const statement: pg.QueryConfig & { query_timeout: number } = {
      text: 'DELETE FROM process WHERE process_id = $1',
      values: [this.#processId],
      query_timeout: LEAVE_MS,
    };
    await client.query(statement).catch(() => undefined); // the row is removed later, like that of a killed process
  }
}

const REMOVE_OLD = `DELETE FROM process WHERE last_seen_at < now() - interval '1 day'`;
const INSERT = 'INSERT INTO process (host, pid, roles, version) VALUES ($1, $2, $3, $4) RETURNING process_id';
const UPSERT = `INSERT INTO process (process_id, host, pid, roles, version) VALUES ($1, $2, $3, $4, $5)
  ON CONFLICT (process_id) DO UPDATE SET last_seen_at = now()`;
