import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { hostname } from 'node:os';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { type Clock, systemClock } from '../../src/domain/clock.ts';
import type { Database } from '../../src/infra/database.ts';
import { DeadProcessWatch, findDeadProcesses } from '../../src/infra/dead-process-watch.ts';
import { createSilentLogger } from '../../src/infra/logger.ts';
import { createMetrics } from '../../src/infra/metrics.ts';
import { NotifyHub } from '../../src/infra/notify-hub.ts';
import { Presence } from '../../src/infra/presence.ts';
import { createTestDatabase, openTestDatabase, type TestDatabase } from '../support/database.ts';
import { MACHINE_ENVIRONMENT } from '../support/service-process.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';
import { until } from '../support/until.ts';

/** Real time, and what a test adds to it. */
interface AdvancingClock extends Clock {
  advance(ms: number): void;
}

/** The presence of a service process, in this Node process. */
interface PresentProcess {
  hub: NotifyHub;
  presence: Presence;
  clock: AdvancingClock;
}

const CHILD = fileURLToPath(new URL('../support/presence-process.ts', import.meta.url));
const NEVER_REGISTERED = 1_000_000;

let testDatabase: TestDatabase;
let database: Database;
let proxy: TcpProxy;
let proxiedUrl: string;
let stops: (() => Promise<unknown>)[];

beforeAll(async () => {
  testDatabase = await createTestDatabase();
  database = openTestDatabase(testDatabase.url, 3);
});
afterAll(async () => {
  await database.close();
  await testDatabase.drop();
});
beforeEach(async () => {
  const url = new URL(testDatabase.url);
  proxy = await startTcpProxy(Number(url.port));
  url.port = String(proxy.port);
  proxiedUrl = url.href;
  stops = [() => proxy.close()];
});
afterEach(async () => {
  for (const stop of stops.reverse()) await stop();
});

function advancingClock(): AdvancingClock {
  let addedMs = 0;
  return {
    ...systemClock,
    now: () => systemClock.now() + addedMs,
    advance: (ms) => {
      addedMs += ms;
    },
  };
}

async function startPresent(url = testDatabase.url): Promise<PresentProcess> {
  const clock = advancingClock();
  const presence = new Presence({ clock, roles: ['web', 'fetch'], version: '1.2.3' });
  const logger = createSilentLogger();
  const hub = new NotifyHub({
    connectionString: url,
    clock,
    logger,
    metrics: createMetrics(),
    presence,
    heartbeatMs: 300,
  });
  stops.push(() => hub.stop());
  await hub.start();
  return { hub, presence, clock };
}

/** Starts a real process that registers. @returns it and the id that it registered as */
async function spawnProcess(url = testDatabase.url): Promise<{ child: ChildProcess; id: number }> {
  const child = spawn(process.execPath, [CHILD, url], {
    env: MACHINE_ENVIRONMENT,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  stops.push(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGKILL');
    await once(child, 'exit');
  });
  const [printed] = (await once(child.stdout as NodeJS.ReadableStream, 'data')) as [Buffer];
  return { child, id: Number(printed.toString()) };
}

/** A watch of a server that need not have been up for 10 s. */
const watchOf = ({ presence, clock }: PresentProcess) =>
  new DeadProcessWatch({ database, presence, clock, serverGraceMs: 0 });

const idOf = ({ presence }: PresentProcess): number => {
  if (presence.processId === undefined) throw new Error('not registered');
  return presence.processId;
};
const rowsOf = (id: number) =>
  database.query<{ last_seen_at: Date }>('SELECT * FROM process WHERE process_id = $1', [id]);
const terminateListeners = () =>
  database.query(
    `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'activity-sync listen' AND datname = current_database()`,
  );
const lockIsGone = (id: number) => async () =>
  (await database.query(`SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = $1::integer::oid`, [id]))
    .length === 0;

describe('a process', () => {
  it('registers with its host, pid, roles and version, and keeps recording that it is alive', async () => {
    const one = await startPresent();
    const [row] = await rowsOf(idOf(one));
    expect(row).toMatchObject({
      host: hostname(),
      pid: process.pid,
      roles: ['web', 'fetch'],
      version: '1.2.3',
      started_at: expect.any(Date),
    });
    expect(one.presence.isRegistered).toBe(true);
    const seenLater = async () => Number((await rowsOf(idOf(one)))[0]?.last_seen_at) > Number(row?.last_seen_at);
    await until(seenLater, 'a heartbeat');
  });

  it('leaves no row when it stops normally', async () => {
    const one = await startPresent();
    await one.hub.stop();
    expect(await rowsOf(idOf(one))).toEqual([]);
    expect(one.presence.isRegistered).toBe(false);
  });

  it('removes the rows of processes that were last seen more than a day ago', async () => {
    await database.query(
      `INSERT INTO process (process_id, host, pid, roles, version, last_seen_at)
       VALUES (900001, 'gone', 1, '{}', '1', now() - interval '25 hours'), (900002, 'gone', 1, '{}', '1', now() - interval '23 hours')`,
    );
    await startPresent();
    expect(await rowsOf(900001)).toEqual([]);
    expect(await rowsOf(900002)).toHaveLength(1);
  });

  it('is not registered while its connection is lost, and registers again under the same id', async () => {
    const one = await startPresent(proxiedUrl);
    const id = idOf(one);
    expect(one.presence.reconnectedAt).toBeUndefined();
    proxy.cut();
    await until(() => !one.presence.isRegistered, 'the loss of the connection');
    await database.query('DELETE FROM process WHERE process_id = $1', [id]); // as a failover to an older copy may
    proxy.restore();
    await until(() => one.hub.connected, 'the new connection');
    expect([one.presence.isRegistered, one.presence.processId]).toEqual([true, id]);
    expect(one.presence.reconnectedAt).toBeLessThanOrEqual(one.clock.now());
    expect(await rowsOf(id)).toHaveLength(1);
  });

  it('registers again while the server still holds its old session', async () => {
    const one = await startPresent(proxiedUrl);
    proxy.hold();
    await until(() => !one.presence.isRegistered, 'the heartbeat that is not answered');
    proxy.release();
    await until(() => one.presence.isRegistered, 'the new registration');
    expect(one.hub.connected).toBe(true);
  });

  it('has the server notice a vanished host within 40 s', async () => {
    const presence = new Presence({ clock: systemClock, roles: [], version: '1' });
    const hub = new NotifyHub({
      connectionString: testDatabase.url,
      clock: systemClock,
      logger: createSilentLogger(),
      metrics: createMetrics(),
      presence,
    });
    stops.push(() => hub.stop());
    const settings: unknown[] = [];
    const register = presence.register.bind(presence);
    presence.register = async (client) => {
      await register(client);
      for (const name of ['tcp_keepalives_idle', 'tcp_keepalives_interval', 'tcp_keepalives_count', 'tcp_user_timeout'])
        settings.push(...(await client.query(`SHOW ${name}`)).rows.flatMap(Object.values));
    };
    await hub.start();
    expect(settings).toEqual(['10', '5', '4', '15000']);
  });
});

describe('a watch', () => {
  it('declares a killed process dead at the second check, a second after the first', async () => {
    const watcher = await startPresent();
    const { child, id } = await spawnProcess();
    const watch = watchOf(watcher);
    expect(await watch.look([id, idOf(watcher)])).toEqual([]);
    child.kill('SIGKILL');
    await until(lockIsGone(id), 'the end of the killed session', 5000);
    expect(await watch.look([id, idOf(watcher)])).toEqual([]);
    watcher.clock.advance(1000);
    expect(await watch.look([id, idOf(watcher)])).toEqual([id]);
    expect(await rowsOf(id)).toHaveLength(1);
  });

  it('considers a paused process alive', async () => {
    const watcher = await startPresent();
    const { child, id } = await spawnProcess();
    const watch = watchOf(watcher);
    child.kill('SIGSTOP');
    expect(await watch.look([id])).toEqual([]);
    watcher.clock.advance(60_000);
    expect(await watch.look([id])).toEqual([]);
    child.kill('SIGCONT');
  });

  it('does not declare a process dead that registered again between two checks', async () => {
    const watcher = await startPresent();
    const other = await startPresent(proxiedUrl);
    const watch = watchOf(watcher);
    proxy.cut();
    await until(lockIsGone(idOf(other)), 'the end of the session');
    expect(await watch.look([idOf(other)])).toEqual([]);
    proxy.restore();
    await until(() => other.presence.isRegistered, 'the new registration');
    watcher.clock.advance(1000);
    expect(await watch.look([idOf(other)])).toEqual([]);
  });

  it('requires at least a second between the two checks', async () => {
    const watcher = await startPresent();
    const stillClock = { ...systemClock, now: () => 0 };
    const watch = new DeadProcessWatch({ database, presence: watcher.presence, clock: stillClock, serverGraceMs: 0 });
    for (let looks = 0; looks < 3; looks += 1) expect(await watch.look([NEVER_REGISTERED])).toEqual([]);
    stillClock.now = () => 999;
    expect(await watch.look([NEVER_REGISTERED])).toEqual([]);
    stillClock.now = () => 1000;
    expect(await watch.look([NEVER_REGISTERED])).toEqual([NEVER_REGISTERED]);
  });

  it('declares no process dead in the first 10 s after its own process reconnected', async () => {
    const watcher = await startPresent();
    const watch = watchOf(watcher);
    await terminateListeners();
    await until(
      () => watcher.presence.reconnectedAt !== undefined && watcher.presence.isRegistered,
      'the reconnection',
    );
    expect(await watch.look([NEVER_REGISTERED])).toEqual([]);
    watcher.clock.advance(5000);
    expect(await watch.look([NEVER_REGISTERED])).toEqual([]);
    watcher.clock.advance(5000);
    expect(await watch.look([NEVER_REGISTERED])).toEqual([]);
    watcher.clock.advance(1000);
    expect(await watch.look([NEVER_REGISTERED])).toEqual([NEVER_REGISTERED]);
  });

  it('declares no process dead in the first 10 s after the start of the server', async () => {
    const [server] = await database.query<{ uptime_ms: number }>(
      'SELECT extract(epoch FROM clock_timestamp() - pg_postmaster_start_time())::float8 * 1000 AS uptime_ms',
    );
    const uptimeMs = server?.uptime_ms ?? 0;
    expect(await findDeadProcesses(database, [NEVER_REGISTERED], uptimeMs + 60_000)).toEqual([]);
    expect(await findDeadProcesses(database, [NEVER_REGISTERED], uptimeMs)).toEqual([NEVER_REGISTERED]);
  });

  it('declares no process dead while its own process is not registered', async () => {
    const watcher = await startPresent(proxiedUrl);
    const watch = watchOf(watcher);
    expect(await watch.look([NEVER_REGISTERED])).toEqual([]);
    proxy.cut();
    await until(() => !watcher.presence.isRegistered, 'the loss of the connection');
    watcher.clock.advance(60_000);
    expect(await watch.look([NEVER_REGISTERED])).toEqual([]);
  });
});
