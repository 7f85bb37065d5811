import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { type Database, openDatabase } from '../../src/infra/database.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';

let testDatabase: TestDatabase;
let database: Database;
const open = (options: { connectionString?: string; statementMs?: number; idleTransactionMs?: number } = {}) =>
  openDatabase({
    connectionString: testDatabase.url,
    maxConnections: 4,
    applicationName: 'test',
    onError: () => undefined,
    ...options,
  });
beforeAll(async () => {
  testDatabase = await createTestDatabase();
  database = open();
  await database.query('CREATE TABLE counter (id int PRIMARY KEY, n int NOT NULL)');
  await database.query('INSERT INTO counter VALUES (1, 0), (2, 0)');
});
afterAll(async () => {
  await database.close();
  await testDatabase.drop();
});

describe('a transaction', () => {
  it('is committed when the work returns and rolled back when it throws', async () => {
    await database.transaction((tx) => tx.query('UPDATE counter SET n = 1 WHERE id = 1'));
    const failing = database.transaction(async (tx) => {
      await tx.query('UPDATE counter SET n = 2 WHERE id = 1');
      throw new Error('changed its mind');
    });
    await expect(failing).rejects.toThrow('changed its mind');
    expect(await database.query('SELECT n FROM counter WHERE id = 1')).toEqual([{ n: 1 }]);
  });

  it('that loses a deadlock is repeated', async () => {
    await database.query('UPDATE counter SET n = 0');
    const meet = barrier(2);
    let runs = 0;
    const add = (first: number, second: number) =>
      database.transaction(async (tx) => {
        runs += 1;
        await tx.query('UPDATE counter SET n = n + 1 WHERE id = $1', [first]);
        await meet();
        await tx.query('UPDATE counter SET n = n + 1 WHERE id = $1', [second]);
      });
    await Promise.all([add(1, 2), add(2, 1)]);
    expect(runs).toBeGreaterThan(2); // the second try may lose as well
    expect(await database.query('SELECT n FROM counter ORDER BY id')).toEqual([{ n: 2 }, { n: 2 }]);
  });

  it('that must not be repeated is not', async () => {
    let runs = 0;
    const work = database.transaction(
      async (tx) => {
        runs += 1;
        await tx.query(`DO $$ BEGIN RAISE EXCEPTION 'lost' USING ERRCODE = '40001'; END $$`);
      },
      { tries: 1 },
    );
    await expect(work).rejects.toMatchObject({ code: '40001' });
    expect(runs).toBe(1);
  });

  it('fails on a connection that dies, and the pool opens another', async () => {
    const dying = database.transaction((tx) => tx.query('SELECT pg_terminate_backend(pg_backend_pid())'));
    await expect(dying).rejects.toMatchObject({ code: '57P01' });
    expect(await database.query('SELECT 1 AS one')).toEqual([{ one: 1 }]);
  });
});

describe('a client that vanishes in the middle of a transaction', () => {
  it('does not keep its locks', async () => {
    const url = new URL(testDatabase.url);
    const proxy = await startTcpProxy(Number(url.port));
    url.port = String(proxy.port);
    const far = open({ connectionString: url.href, idleTransactionMs: 100 });
    const lost = far.transaction(async (tx) => {
      await tx.query('SELECT FROM counter WHERE id = 1 FOR UPDATE');
      proxy.hold();
      await database.query('SELECT FROM counter WHERE id = 1 FOR UPDATE'); // waits for it
      proxy.release();
    });
    await expect(lost).rejects.toThrow();
    await far.close();
    await proxy.close();
  });
});

describe('a transaction with a lock timeout', () => {
  it('gives up its wait for a lock', async () => {
    await database.transaction(async (tx) => {
      await tx.query('SELECT FROM counter WHERE id = 1 FOR UPDATE');
      const waiting = database.transaction((other) => other.query('UPDATE counter SET n = 7 WHERE id = 1'), {
        lockMs: 50,
      });
      await expect(waiting).rejects.toMatchObject({ code: '55P03' });
    });
  });
});

describe('reserved connections', () => {
  it('fail sooner than the others, and are closed with them', async () => {
    const main = open();
    const reserved = main.reserve({ maxConnections: 1, statementMs: 50 });
    await expect(reserved.query('SELECT pg_sleep(5)')).rejects.toThrow('timeout');
    expect(await main.query('SELECT 1 AS one')).toEqual([{ one: 1 }]);
    await main.close();
    await expect(reserved.query('SELECT 1')).rejects.toThrow('after calling end');
  });
});

describe('a server that vanishes', () => {
  it('fails a statement after the timeout, and its connection is not used again', async () => {
    const url = new URL(testDatabase.url);
    const proxy = await startTcpProxy(Number(url.port));
    url.port = String(proxy.port);
    const far = open({ connectionString: url.href, statementMs: 100 });
    await far.query('SELECT 1');
    const { totalCount } = far.pool;
    proxy.hold();
    await expect(far.query('SELECT 1')).rejects.toThrow('timeout');
    expect(far.pool.totalCount).toBe(totalCount - 1);
    proxy.release();
    await far.query('SELECT 1');
    const held = far.transaction(async (tx) => {
      proxy.hold();
      await tx.query('SELECT 1');
    });
    await expect(held).rejects.toThrow('timeout');
    proxy.release();
    expect(await far.query('SELECT 1 AS one')).toEqual([{ one: 1 }]);
    await far.close();
    await proxy.close();
  });
});

describe('session statements', () => {
  it('reach existing connections and new ones', async () => {
    const fresh = open();
    await fresh.query('SELECT 1');
    await fresh.setSessionStatements([`SET application_name = 'marked'`]);
    const names = await Promise.all(
      [1, 2, 3].map(() =>
        fresh.transaction(async (tx) => {
          const rows = await tx.query<{ name: string }>(`SELECT current_setting('application_name') AS name`);
          return rows[0]?.name;
        }),
      ),
    );
    expect(names).toEqual(['marked', 'marked', 'marked']);
    await fresh.close();
  });
});

/** Lets the first `size` callers wait for one another; those who come later pass. */
function barrier(size: number): () => Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  let arrived = 0;
  return () => {
    arrived += 1;
    if (arrived === size) resolve();
    return promise;
  };
}
