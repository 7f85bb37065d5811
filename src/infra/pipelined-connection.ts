import type pg from 'pg';

/** What runs one statement. */
export interface StatementTarget {
  query(statement: string | pg.QueryConfig): Promise<pg.QueryResult>;
}

interface Held {
  client: Promise<pg.PoolClient>;
  onError: (error: Error) => void;
  /** Statements whose answers have not come. */
  due: number;
  broken: Error | undefined;
}

/**
 * Sends statements over one connection as they come: the server runs them in their order, each as a
 * transaction of its own, and goes on to the next without a word from here. The connection is held only
 * while answers are due; the pool replaces one that broke, and every statement that was due on it fails.
 * @param pool of one connection, made with pg's option `pipeline`
 */
export function createPipelinedConnection(pool: pg.Pool): StatementTarget {
  let held: Held | undefined;

  const hold = (): Held => {
    const mine: Held = {
      client: pool.connect(),
      onError: (error) => {
        mine.broken = error;
        if (held === mine) held = undefined;
      },
      due: 0,
      broken: undefined,
    };
    mine.client = mine.client.then((client) => client.on('error', mine.onError));
    return mine;
  };

  const giveBack = (mine: Held, client: pg.PoolClient): void => {
    if (held === mine) held = undefined;
    client.off('error', mine.onError);
    client.release(mine.broken);
  };

  return {
    query: async (statement) => {
      held ??= hold();
      const mine = held;
      mine.due += 1;
      const client = await mine.client.catch((error: Error) => {
        if (held === mine) held = undefined; // the next statement tries to connect again
        throw error;
      });
      try {
        return await client.query(statement as pg.QueryConfig);
      } catch (error) {
        // Without an SQLSTATE it was not the statement that failed.
        if ((error as { code?: unknown }).code === undefined) mine.onError(error as Error);
        throw error;
      } finally {
        mine.due -= 1;
        if (mine.due === 0) giveBack(mine, client);
      }
    },
  };
}
