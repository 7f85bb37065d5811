import { createHash } from 'node:crypto';
import pg from 'pg';
import { isLostAgainstAnother } from './database-errors.ts';
import { createPipelinedConnection, type StatementTarget } from './pipelined-connection.ts';

/** Something that runs one statement: the pool, or the connection of a transaction. */
export interface Queryable {
  /** Runs a statement. With values it is prepared once for each connection, under a name made from its text. */
  query<Row extends object = Record<string, unknown>>(text: string, values?: unknown[]): Promise<Row[]>;
  /** The same in the form that pg-boss takes as its `db` option. */
  executeSql(text: string, values?: unknown[]): Promise<{ rows: unknown[] }>;
}

export interface Database extends Queryable {
  /**
   * Runs `work` in one transaction: committed when it returns, rolled back when it throws. One that loses
   * against another transaction (serialization failure, deadlock) is run again, so `work` must not change
   * anything but the database; where it does, give `tries: 1`.
   */
  transaction<T>(work: (tx: Queryable) => Promise<T>, options?: { tries?: number }): Promise<T>;
  /**
   * A connection of the caller's own, on which statements do not wait for the answers to those before: for a
   * caller with many, where the order in which they run is the order in which they were sent. One that loses
   * against another transaction is sent again.
   * @param options.lockTimeoutMs after which a statement that waits for a lock fails, since those behind it wait too
   */
  openPipeline(options?: { lockTimeoutMs?: number }): Queryable;
  /** Statements that every connection runs before its first use (pg-boss's test clock needs it). */
  setSessionStatements(statements: string[]): Promise<void>;
  readonly pool: pg.Pool;
  close(): Promise<void>;
}

const QUERY_TIMEOUT_MS = 30_000;
const IDLE_TRANSACTION_MS = 60_000;
const TRIES = 5;

// 64-bit integers come as strings, which is how ids are held; counts are cast to int in SQL.
const TYPES = { getTypeParser: pg.types.getTypeParser };

/**
 * Opens a pool of connections.
 * @param queryTimeoutMs after which a statement fails and its connection is given up: a server that went
 * without a word answers never. 0 waits for ever
 * @param idleTransactionMs after which the server ends a transaction in which nothing happens: its client may be
 * gone without a word, and others wait for what it has locked
 * @param onError hears of idle connections that broke; the pool replaces them
 */
export function openDatabase(options: {
  connectionString: string;
  maxConnections: number;
  applicationName: string;
  queryTimeoutMs?: number;
  idleTransactionMs?: number;
  onError: (error: Error) => void;
}): Database {
  let sessionStatements: string[] = [];
  const settings: pg.PoolConfig = {
    connectionString: options.connectionString,
    application_name: options.applicationName,
    connectionTimeoutMillis: 5000,
    query_timeout: options.queryTimeoutMs ?? QUERY_TIMEOUT_MS,
    idle_in_transaction_session_timeout: options.idleTransactionMs ?? IDLE_TRANSACTION_MS,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    types: TYPES,
    onConnect: async (client) => {
      for (const statement of sessionStatements) await client.query(statement);
    },
  };
  const pools: pg.Pool[] = [];
  const openPool = (more: pg.PoolConfig): pg.Pool => {
    const pool = new pg.Pool({ ...settings, ...more });
    pool.on('error', options.onError);
    pools.push(pool);
    return pool;
  };
  const pool = openPool({ max: options.maxConnections });
  return {
    ...queryableOf(pool),
    openPipeline: ({ lockTimeoutMs } = {}) => {
      const lockTimeout = lockTimeoutMs === undefined ? {} : { lock_timeout: lockTimeoutMs };
      const pipeline = createPipelinedConnection(openPool({ max: 1, pipeline: true, ...lockTimeout }));
      return queryableOf({ query: (statement) => repeatWhenLost(() => pipeline.query(statement)) });
    },
    pool,
    setSessionStatements: async (statements) => {
      sessionStatements = statements;
      for (const each of pools) await runOnIdleConnections(each, statements);
    },
    transaction: (work, { tries = TRIES } = {}) => repeatWhenLost(() => runTransaction(pool, work), tries),
    close: async () => {
      for (const each of pools) if (!each.ending) await each.end();
    },
  };
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

async function repeatWhenLost<T>(run: () => Promise<T>, tries = TRIES): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await run();
    } catch (error) {
      if (attempt >= tries || !isLostAgainstAnother(error)) throw error;
    }
  }
}

async function runTransaction<T>(pool: pg.Pool, work: (tx: Queryable) => Promise<T>): Promise<T> {
  const client = await pool.connect();
  let broken: Error | undefined;
  const onError = (error: Error) => {
    broken = error;
  };
  client.on('error', onError);
  try {
    await client.query('BEGIN');
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

function queryableOf(target: StatementTarget): Queryable {
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

/** A statement's name is made from its text, so the server plans it once for each connection. */
function statementName(text: string): string {
  let name = names.get(text);
  if (name === undefined) {
    name = createHash('sha1').update(text).digest('base64url');
    if (names.size < MAX_NAMES) names.set(text, name);
  }
  return name;
}
