import { type ChildProcess, fork } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { chmod, mkdir, mkdtemp, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import type { EmbeddedPostgresError } from '../../src/infra/embedded/embedded-postgres-error.ts';
import {
  type EmbeddedPostgres,
  type EmbeddedPostgresOptions,
  removeEmbeddedPostgres,
  startEmbeddedPostgres,
} from '../../src/infra/embedded-postgres.ts';

const SERVICE_PROCESS = new URL('../support/embedded-postgres-process.ts', import.meta.url).pathname;

// One cluster serves all tests of this file but those about a folder of another kind: creating it is slow.
let folder: string;
let dataDir: string;
let servers: EmbeddedPostgres[] = [];
let services: ChildProcess[] = [];
let logLines: string[] = [];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'embedded-postgres-'));
  // When root runs the tests, another account runs PostgreSQL and has to reach the folder.
  await chmod(folder, 0o755);
});

beforeEach(() => {
  dataDir = join(folder, 'data');
  logLines = [];
});

afterEach(async () => {
  for (const service of services) if (service.exitCode === null && service.signalCode === null) await killHard(service);
  for (const server of servers) await server.stop();
  [services, servers] = [[], []];
});

afterAll(() => rm(folder, { recursive: true, force: true }));

describe('the embedded PostgreSQL', () => {
  it('is a UTF8 server in UTC that only this machine reaches and only with the password', async () => {
    const server = await start();
    const [settings] = await query(
      server.connectionString,
      `SELECT current_setting('server_encoding') AS encoding, current_setting('TimeZone') AS zone,
        current_setting('listen_addresses') AS addresses, current_setting('unix_socket_directories') AS sockets,
        current_setting('max_connections') AS connections, upper('ä') AS upper,
        (SELECT string_agg(DISTINCT auth_method, ',') FROM pg_hba_file_rules) AS auth`,
    );
    expect(settings).toEqual({
      encoding: 'UTF8',
      zone: 'UTC',
      addresses: '127.0.0.1',
      sockets: '',
      connections: '200',
      upper: 'Ä',
      auth: 'scram-sha-256',
    });
    const wrong = new URL(server.connectionString);
    wrong.password = 'wrong';
    await expect(query(wrong.href, 'SELECT 1')).rejects.toMatchObject({ code: '28P01' });
    expect((await stat(join(dataDir, 'postgres-password'))).mode & 0o777).toBe(0o600);
  });

  it('keeps its data and its password over a restart', async () => {
    const first = await start();
    const note = await writeNote(first.connectionString);
    await first.stop();
    const second = await start();
    expect(await readNote(second.connectionString)).toBe(note);
    expect(new URL(second.connectionString).password).toBe(new URL(first.connectionString).password);
  });

  it('can be stopped twice', async () => {
    const server = await start();
    await Promise.all([server.stop(), server.stop()]);
    await server.stop();
    await expect(query(server.connectionString, 'SELECT 1')).rejects.toMatchObject({ code: 'ECONNREFUSED' });
  });

  it('says when the server is killed, and recovers what was committed at the next start', async () => {
    let hearOfEnd: (error: EmbeddedPostgresError) => void;
    const unexpectedEnd = new Promise<EmbeddedPostgresError>((resolve) => {
      hearOfEnd = resolve;
    });
    const first = await start({ onUnexpectedEnd: (error) => hearOfEnd(error) });
    const note = await writeNote(first.connectionString);
    process.kill(first.pid, 'SIGKILL');
    expect(await unexpectedEnd).toMatchObject({ code: 'ENDED', message: expect.stringContaining('SIGKILL') });
    await first.stop();
    const second = await start();
    expect(await readNote(second.connectionString)).toBe(note);
    expect(logLines.join('\n')).toContain('automatic recovery in progress');
  });

  it('ends a session that outlived its killed server', async () => {
    const first = await start();
    const session = new pg.Client({ connectionString: first.connectionString });
    await session.connect();
    const sessionEnd = new Promise((resolve) => session.once('end', resolve));
    // A working session does not notice that its server is gone.
    session.query('DO $$ BEGIN LOOP END LOOP; END $$').catch(() => undefined);
    session.on('error', () => undefined);
    await waitForActiveSession(first.connectionString);
    process.kill(first.pid, 'SIGKILL');
    await first.stop();
    const second = await start();
    await sessionEnd;
    expect(await query(second.connectionString, 'SELECT 1 AS alive')).toEqual([{ alive: 1 }]);
    expect(logLines.join('\n')).toContain('outlived its server');
  });

  it('starts although the number of a crashed server belongs to another process by now', async () => {
    const first = await start();
    await first.stop();
    await writeFile(join(dataDir, 'postgres', 'postmaster.pid'), `${process.ppid}\n${join(dataDir, 'postgres')}\n`);
    const second = await start();
    expect(await query(second.connectionString, 'SELECT 1 AS alive')).toEqual([{ alive: 1 }]);
  });

  it('gets a new password when the kept one is lost', async () => {
    const first = await start();
    const note = await writeNote(first.connectionString);
    await first.stop();
    await rm(join(dataDir, 'postgres-password'));
    const second = await start();
    expect(await readNote(second.connectionString)).toBe(note);
  });

  it('leaves alone a folder in its place that is no cluster', async () => {
    dataDir = join(folder, 'occupied');
    await mkdir(join(dataDir, 'postgres'), { recursive: true });
    await writeFile(join(dataDir, 'postgres', 'notes.txt'), 'mine');
    await expect(start()).rejects.toMatchObject({
      code: 'CLUSTER_UNUSABLE',
      message: expect.stringContaining('move the folder away'),
    });
    expect(await readdir(join(dataDir, 'postgres'))).toEqual(['notes.txt']);
  });

  it('refuses a cluster of another PostgreSQL version', async () => {
    dataDir = join(folder, 'older');
    await mkdir(join(dataDir, 'postgres'), { recursive: true });
    await writeFile(join(dataDir, 'postgres', 'PG_VERSION'), '15\n');
    await expect(start()).rejects.toMatchObject({
      code: 'CLUSTER_UNUSABLE',
      message: expect.stringContaining('is of PostgreSQL 15'),
    });
  });
});

describe('one process for each data folder', () => {
  it('refuses a second start while the first process lives, and names it', async () => {
    const { service } = await startService();
    await expect(start()).rejects.toMatchObject({
      code: 'ALREADY_RUNNING',
      message: expect.stringContaining(`already run by process ${service.pid}`),
    });
    const exit = once(service, 'exit');
    service.send('stop');
    await exit;
    await start();
  });

  it('refuses a second start in the same process', async () => {
    await start();
    await expect(start()).rejects.toMatchObject({
      code: 'ALREADY_RUNNING',
      message: expect.stringContaining('this process itself'),
    });
  });

  it('takes over from a service that was killed, and keeps what it committed', async () => {
    const { service, connectionString, pid } = await startService();
    const note = await writeNote(connectionString);
    await killHard(service);
    const server = await start();
    expect(server.pid).not.toBe(pid);
    expect(await readNote(server.connectionString)).toBe(note);
    expect(logLines.join('\n')).toContain(`stopping PostgreSQL (process ${pid}), left behind`);
  });

  it('takes the server along when a process exits without stopping it', async () => {
    const { service, connectionString } = await startService();
    const session = new pg.Client({ connectionString });
    session.on('error', () => undefined);
    await session.connect();
    const sessionEnd = new Promise((resolve) => session.once('end', resolve));
    const exit = once(service, 'exit');
    service.send('exit');
    await Promise.all([exit, sessionEnd]);
    await start();
  });
});

// Only root can hand the server to another account.
if (process.getuid?.() === 0) {
  describe('started by root in a folder that nobody else can enter', () => {
    async function startInClosedFolder(): Promise<EmbeddedPostgres> {
      const home = join(folder, 'home');
      await mkdir(home, { recursive: true, mode: 0o700 });
      dataDir = join(home, 'data');
      return start({ sharedDir: join(folder, 'shared') });
    }

    async function readPlace(): Promise<string> {
      return JSON.parse(await readFile(join(dataDir, 'postgres-location.json'), 'utf8')).clusterDir;
    }

    it('keeps the cluster elsewhere, notes the place and finds it again', async () => {
      const first = await startInClosedFolder();
      const note = await writeNote(first.connectionString);
      await first.stop();
      const place = await readPlace();
      expect(place).toContain(join(folder, 'shared', 'clusters'));
      expect((await stat(place)).mode & 0o777).toBe(0o700);
      const second = await startInClosedFolder();
      expect(await readNote(second.connectionString)).toBe(note);
      expect(await readPlace()).toBe(place);
    });

    it('removes all that it kept elsewhere', async () => {
      const server = await startInClosedFolder();
      await expect(removeEmbeddedPostgres({ dataDir, log: () => undefined })).rejects.toMatchObject({
        code: 'ALREADY_RUNNING',
      });
      await server.stop();
      await removeEmbeddedPostgres({ dataDir, log: () => undefined });
      expect(await readdir(join(folder, 'shared', 'clusters'))).toEqual([]);
      expect(await readdir(dataDir)).toEqual(['postgres.claims']);
    });

    it('does not start empty when the noted place is gone', async () => {
      await (await startInClosedFolder()).stop();
      await rename(await readPlace(), join(folder, 'moved'));
      await expect(startInClosedFolder()).rejects.toMatchObject({
        code: 'CLUSTER_MISSING',
        message: expect.stringContaining('Put it back'),
      });
    });
  });
}

async function start(options: Partial<EmbeddedPostgresOptions> = {}): Promise<EmbeddedPostgres> {
  const server = await startEmbeddedPostgres({
    dataDir,
    log: (level, message) => logLines.push(`${level} ${message}`),
    postgresFlags: ['-c', 'fsync=off'],
    ...options,
  });
  servers.push(server);
  return server;
}

async function startService(): Promise<{ service: ChildProcess; connectionString: string; pid: number }> {
  const service = fork(SERVICE_PROCESS, [dataDir], { execArgv: [] });
  services.push(service);
  const [message] = (await once(service, 'message')) as [{ connectionString: string; pid: number }];
  return { service, ...message };
}

async function killHard(service: ChildProcess): Promise<void> {
  const exit = once(service, 'exit');
  service.kill('SIGKILL');
  await exit;
}

/** Commits a new text, to be found after what follows. */
async function writeNote(connectionString: string): Promise<string> {
  const note = randomUUID();
  await query(connectionString, `DROP TABLE IF EXISTS note; CREATE TABLE note AS SELECT '${note}' AS body`);
  return note;
}

async function readNote(connectionString: string): Promise<unknown> {
  return (await query(connectionString, 'SELECT body FROM note'))[0]?.body;
}

async function query(connectionString: string, sql: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString });
  try {
    await client.connect();
    return (await client.query(sql)).rows;
  } finally {
    await client.end();
  }
}

async function waitForActiveSession(connectionString: string): Promise<void> {
  const sql = `SELECT FROM pg_stat_activity WHERE query LIKE 'DO %' AND state = 'active'`;
  while ((await query(connectionString, sql)).length === 0);
}
