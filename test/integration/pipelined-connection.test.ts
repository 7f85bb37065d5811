import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { type Database, openDatabase, type Queryable } from '../../src/infra/database.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';

const ADD = 'INSERT INTO line (text) VALUES ($1)';
const PID = 'SELECT pg_backend_pid() AS pid WHERE $1::int > 0';

let testDatabase: TestDatabase;
let database: Database;
let proxy: TcpProxy;
let far: Database;
let pipeline: Queryable;
let farPipeline: Queryable;
const open = (connectionString: string, queryTimeoutMs = 30_000) =>
  openDatabase({
    connectionString,
    queryTimeoutMs,
    maxConnections: 4,
    applicationName: 'test',
    onError: () => undefined,
  });
const lines = async () =>
  (await database.query<{ text: string }>('SELECT text FROM line ORDER BY id')).map(({ text }) => text);

beforeAll(async () => {
  testDatabase = await createTestDatabase();
  database = open(testDatabase.url);
  await database.query('CREATE TABLE line (id serial PRIMARY KEY, text text NOT NULL UNIQUE)');
  const url = new URL(testDatabase.url);
  proxy = await startTcpProxy(Number(url.port));
  url.port = String(proxy.port);
  far = open(url.href, 500);
  farPipeline = far.openPipeline();
  pipeline = database.openPipeline();
});
afterEach(async () => {
  proxy.release();
  await database.query('TRUNCATE line');
});
afterAll(async () => {
  await far.close();
  await proxy.close();
  await database.close();
  await testDatabase.drop();
});

describe('the pipelined connection', () => {
  it('runs statements in the order in which they were sent, on one connection', async () => {
    const pids = await Promise.all([1, 2, 3].map((n) => pipeline.query<{ pid: number }>(PID, [n])));
    expect(new Set(pids.map(([row]) => row?.pid)).size).toBe(1);
    await Promise.all(['a', 'b', 'c', 'd'].map((text) => pipeline.query(ADD, [text])));
    expect(await lines()).toEqual(['a', 'b', 'c', 'd']);
  });

  it('commits each for itself: one that fails takes no other with it', async () => {
    const texts = ['a', 'a', 'b'];
    const results = await Promise.allSettled(texts.map((text) => pipeline.query(ADD, [text])));
    expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
    expect(results[1]).toMatchObject({ reason: { code: '23505' } });
    expect(await lines()).toEqual(['a', 'b']);
  });

  it('has sent a statement before the one ahead of it is answered', async () => {
    let answers: Promise<unknown>[] = [];
    await farPipeline.query('SELECT pg_advisory_lock(2)');
    await database.transaction(async (tx) => {
      await tx.query('SELECT pg_advisory_xact_lock(1)');
      answers = [
        farPipeline.query('SELECT pg_advisory_lock(1)'),
        farPipeline.query(ADD, ['sent']),
        farPipeline.query('SELECT pg_advisory_unlock(2)'),
      ];
      await waitsForLock(tx, 1);
      proxy.hold(); // from here on nothing more arrives
    });
    await database.transaction((tx) => tx.query('SELECT pg_advisory_xact_lock(2)')); // free once they have run
    expect(await lines()).toEqual(['sent']);
    const settled = await Promise.allSettled(answers);
    expect(settled.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected']); // no answer came through
  });

  it('fails all that is due when the server falls silent, and connects anew', async () => {
    await farPipeline.query('SELECT 1');
    proxy.hold();
    const due = await Promise.allSettled([1, 2].map((n) => farPipeline.query(PID, [n])));
    expect(due.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    proxy.release();
    expect(await farPipeline.query('SELECT 1 AS one')).toEqual([{ one: 1 }]);
  });

  it('fails all that is due when its backend ends, and connects anew', async () => {
    const due = await Promise.allSettled([
      pipeline.query('SELECT pg_terminate_backend(pg_backend_pid())'),
      pipeline.query(ADD, ['lost']),
    ]);
    expect(due.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    await pipeline.query(ADD, ['kept']);
    expect(await lines()).toEqual(['kept']);
  });

  it('says so when nothing can be reached, and tries again with the next statement', async () => {
    await farPipeline.query('SELECT 1');
    proxy.cut();
    await expect(farPipeline.query('SELECT 1')).rejects.toThrow();
    await expect(farPipeline.query('SELECT 1')).rejects.toThrow();
    proxy.restore();
    expect(await farPipeline.query('SELECT 1 AS one')).toEqual([{ one: 1 }]);
  });

  it('runs the session statements', async () => {
    await pipeline.query('SELECT 1');
    await database.setSessionStatements([`SET application_name = 'marked'`]);
    expect(await pipeline.query(`SELECT current_setting('application_name') AS name`)).toEqual([{ name: 'marked' }]);
  });
});

/** Resolves once somebody waits for the advisory lock. */
async function waitsForLock(tx: Pick<Database, 'query'>, lock: number): Promise<void> {
  for (;;) {
    const rows = await tx.query('SELECT FROM pg_locks WHERE locktype = $1 AND objid = $2 AND NOT granted', [
      'advisory',
      lock,
    ]);
    if (rows.length > 0) return;
  }
}
