import { createHash } from 'node:crypto';
import pg from 'pg';
import { CONNECT_MS, IDLE_TRANSACTION_MS, repeatOnConflict, STATEMENT_MS } from './database-policy.ts';

/** Something that runs one statement: the pool, or the connection of a transaction. */
export interface Queryable {
  /** Runs a statement. With values it is prepared once for each connection, under a name made from its text. */
  query<Row extends object = Record<string, unknown>>(text: string, values?: unknown[]): Promise<Row[]>;
  /** The same in the form that pg-boss takes as its `db` option. */
  executeSql(text: string, values?: unknown[]): Promise<{ rows: unknown[] }>;
}

/** Limits of one transaction, in milliseconds; see database-policy.ts. */
export interface TransactionLimits {
  /** How often it is run when it loses to others; 1 for work that must not run twice. */
  tries?: number;
  lockMs?: number;
  idleMs?: number;
}

export interface Database extends Queryable {
  /**
   * Runs `work` in one transaction: committed when it returns, rolled back when it throws. One that loses to
   * another transaction is run again, so `work` must change nothing but the database; otherwise pass
   * `tries: 1`.
   */
  transaction<T>(work: (tx: Queryable) => Promise<T>, limits?: TransactionLimits): Promise<T>;
  /** Further connections of the caller's own, whose statements fail sooner. Closed with this one. */
  reserve(options: { maxConnections: number; statementMs: number }): Database;
  /** Statements that every connection runs before its first use (pg-boss's test clock needs it). */
  setSessionStatements(statements: string[]): Promise<void>;
  readonly pool: pg.Pool;
  close(): Promise<void>;
}

// 64-bit integers come as strings, which is how ids are held; counts are cast to int in SQL.
const TYPES = { getTypeParser: pg.types.getTypeParser };

/**
 * Opens a pool of connections.
 * @param statementMs after which a statement fails and its connection is dropped: a server that vanished never
 * answers. 0 waits forever
 * @param idleTransactionMs after which the server ends an idle transaction
 * @param onError receives the errors of broken idle connections; the pool replaces them
 */
export function openDatabase(options: {
  connectionString: string;
  maxConnections: number;
  applicationName: string;
  statementMs?: number;
  idleTransactionMs?: number;
  onError: (error: Error) => void;
}): Database {
  let sessionStatements: string[] = [];
  const pools: pg.Pool[] = [];
  const open = (maxConnections: number, statementMs: number): Database => {
    const pool = new pg.Pool({
      connectionString: options.connectionString,
      application_name: options.applicationName,
      max: maxConnections,
      connectionTimeoutMillis: statementMs > 0 ? Math.min(CONNECT_MS, statementMs) : CONNECT_MS,
      query_timeout: statementMs,
      idle_in_transaction_session_timeout: options.idleTransactionMs ?? IDLE_TRANSACTION_MS,
      keepAlive: true,
      keepAliveInitialDelayMillis: 10_000,
      types: TYPES,
      onConnect: async (client) => {
        for (const statement of sessionStatements) await client.query(statement);
      },
    });
    pool.on('error', options.onError);
    pools.push(pool);
    return {
      ...queryableOf(pool),
      pool,
      transaction: (work, limits = {}) => repeatOnConflict(() => runTransaction(pool, work, limits), limits.tries),
      reserve: (more) => open(more.maxConnections, more.statementMs),
      setSessionStatements: async (statements) => {
        sessionStatements = statements;
        for (const each of pools) await runOnIdleConnections(each, statements);
      },
      close: async () => {
        for (const each of pools) if (!each.ending) await each.end();
      },
    };
  };
  return open(options.maxConnections, options.statementMs ?? STATEMENT_MS);
}

/** Connections that were opened before the statements were set run them too. */
async function runOnIdleConnections(pool: pg.Pool, statements: string[]): Promise<void> {
  const clients = await Promise.all(Array.from({ length: pool.idleCount }, () => pool.connect()));
  try {
    for (const client of clients) for (const statement of statements) await client.query(statement);
  } finally {
    for (const client of clients) client.release();
  }
}

async function runTransaction<T>(
  pool: pg.Pool,
  work: (tx: Queryable) => Promise<T>,
  { lockMs, idleMs }: TransactionLimits,
): Promise<T> {
  const client = await pool.connect();
  let broken: Error | undefined;
  const onError = (error: Error) => {
    broken = error;
  };
  client.on('error', onError);
  try {
    const lock = lockMs === undefined ? '' : `; SET LOCAL lock_timeout = ${lockMs}`;
    const idle = idleMs === undefined ? '' : `; SET LOCAL idle_in_transaction_session_timeout = ${idleMs}`;
    await client.query(`BEGIN${lock}${idle}`);
    const result = await work(queryableOf(client));
    await client.query('COMMIT');
    return result;
  } catch (error) {
    // A connection that cannot even roll back is dropped, and the server ends the transaction.
    if (isTimeout(error)) broken ??= error;
    else
      await client.query('ROLLBACK').catch((rollbackError: Error) => {
        broken ??= rollbackError;
      });
    throw error;
  } finally {
    client.off('error', onError);
    client.release(broken);
  }
}

function isTimeout(error: unknown): error is Error {
  return (error as { message?: unknown }).message === 'Query read timeout';
}

function queryableOf(target: { query(statement: string | pg.QueryConfig): Promise<pg.QueryResult> }): Queryable {
  const run = (text: string, values?: unknown[]) =>
    values === undefined ? target.query(text) : target.query({ name: statementName(text), text, values });
  return {
    query: async <Row extends object>(text: string, values?: unknown[]) => (await run(text, values)).rows as Row[],
    // pg-boss's maintenance sends several statements as one text, with no values: that cannot be prepared.
    executeSql: (text, values) => run(text, values?.length === 0 ? undefined : values),
  };
}

const names = new Map<string, string>();
const MAX_NAMES = 500;

/** A statement's name is made from its text, so the server parses it once for each connection. */
function statementName(text: string): string {
  let name = names.get(text);
  if (name === undefined) {
    name = createHash('sha1').update(text).digest('base64url');
    if (names.size < MAX_NAMES) names.set(text, name);
  }
  return name;
}
