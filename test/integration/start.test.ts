import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, readdir, rm, utimes, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, it } from '@jest/globals';
import { removeEmbeddedPostgres } from '../../src/infra/embedded-postgres.ts';
import { createTestDatabase, openTestDatabase } from '../support/database.ts';
import { testEnvironment } from '../support/service.ts';
import { freePort, MACHINE_ENVIRONMENT, startServiceProcess } from '../support/service-process.ts';
import { until } from '../support/until.ts';
import { envExample } from '../support/write-env-example.ts';

let folder: string | undefined;
afterEach(async () => {
  if (folder) await rm(folder, { recursive: true, force: true });
  folder = undefined;
});

/** Starts the program and waits until it exits. */
async function start(env: Record<string, string>): Promise<{ code: number | null; printed: string }> {
  const started = startServiceProcess(env);
  const [code] = (await once(started.child, 'close')) as [number | null];
  return { code, printed: started.output() };
}

describe('a start that cannot succeed', () => {
  it('with nothing set ends with 2 and one message, which names every variable that is needed', async () => {
    const { code, printed } = await start({});
    expect(code).toBe(2);
    expect(printed.trimEnd().split('\n')).toEqual([
      'The service cannot start, 4 variables need attention:',
      expect.stringMatching(/^ {2}PROVIDER_CLIENT_ID is missing: .+ Example: PROVIDER_CLIENT_ID=/),
      expect.stringMatching(/^ {2}PROVIDER_CLIENT_SECRET is missing: .+ Example: PROVIDER_CLIENT_SECRET=/),
      expect.stringMatching(/^ {2}NEXT_PUBLIC_BASE_URL is missing: .+ Example: NEXT_PUBLIC_BASE_URL=/),
      expect.stringMatching(/^ {2}PROVIDER_VERIFY_TOKEN is missing: .+ Example: PROVIDER_VERIFY_TOKEN=/),
    ]);
  });

  it('reads .env in the current folder, where the environment wins, and names each placeholder that is left', async () => {
    folder = await mkdtemp(join(tmpdir(), 'activity-sync-start-'));
    await writeFile(join(folder, '.env'), envExample());
    const child = spawn(process.execPath, [fileURLToPath(new URL('../../src/start.js', import.meta.url))], {
      cwd: folder,
      env: { ...MACHINE_ENVIRONMENT, PROVIDER_CLIENT_ID: '12345' },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    const [printed, [code]] = await Promise.all([text(child.stderr), once(child, 'close')]);
    expect({ code, printed: printed.trimEnd().split('\n') }).toEqual({
      code: 2,
      printed: [
        'The service cannot start, 4 variables need attention:',
        expect.stringContaining('  PROVIDER_CLIENT_SECRET still has the placeholder <client secret>'),
        expect.stringContaining('  NEXT_PUBLIC_BASE_URL still has the placeholder <public host>'),
        expect.stringContaining('  PROVIDER_VERIFY_TOKEN still has the placeholder <random string>'),
        expect.stringContaining('  ADMIN_TOKEN still has the placeholder <random string>'),
      ],
    });
  });

  it('warns of a variable PROVIDER_… that it does not know, with the nearest known one', async () => {
    const { printed } = await start(
      testEnvironment('http://127.0.0.1:1', {
        DATABASE_URL: 'postgres://sync@127.0.0.1:1/sync',
        PROVIDER_COOLDOWN: '60000',
      }),
    );
    expect(JSON.parse(printed.split('\n').find((line) => line.startsWith('{')) ?? '')).toMatchObject({
      level: 'warn',
      message: 'variable unknown, ignored',
      variable: 'PROVIDER_COOLDOWN',
      nearest: 'PROVIDER_ATHLETE_COOLDOWN',
    });
  });

  it('for a port that is taken ends with 1, says so, and stops its own database', async () => {
    folder = await mkdtemp(join(tmpdir(), 'activity-sync-start-'));
    await chmod(folder, 0o755); // when root runs the tests, PostgreSQL runs under another account
    const dataDir = join(folder, 'data');
    const other = createServer();
    other.listen(0);
    await once(other, 'listening');
    const { port } = other.address() as AddressInfo;
    const { code, printed } = await start(
      testEnvironment('http://127.0.0.1:1', { PORT: String(port), DATA_DIR: dataDir, LOG_LEVEL: 'error' }),
    );
    other.close();
    await once(other, 'close');
    expect({ code, printed }).toEqual({
      code: 1,
      printed: `Cannot listen on port ${port}: another program listens there. Set PORT to a free one.\n`,
    });
    const said: string[] = [];
    await removeEmbeddedPostgres({ dataDir, log: (_level, message) => said.push(message) });
    expect(said.join('\n')).not.toMatch(/stop/i); // no server was left running
  });

  it('for a data folder that cannot be created ends with 1 within five seconds and says so', async () => {
    const startedAt = performance.now();
    const { code, printed } = await start(
      testEnvironment('http://127.0.0.1:1', { DATA_DIR: '/proc/x', LOG_LEVEL: 'error' }),
    );
    expect({ code, printed }).toEqual({
      code: 1,
      printed: expect.stringMatching(
        /^The folder \/proc\/x, needed by the embedded PostgreSQL, cannot be created .+\n$/,
      ),
    });
    expect(performance.now() - startedAt).toBeLessThan(5000);
  });

  it('prints no password of the database that it cannot reach', async () => {
    const { code, printed } = await start(
      testEnvironment('http://127.0.0.1:1', { DATABASE_URL: 'postgres://sync:hunter2-secret@127.0.0.1:1/sync' }),
    );
    expect(code).toBe(1);
    expect(printed).toMatch(/DATABASE_URL/);
    expect(printed).not.toContain('hunter2-secret');
  });
});

describe('npm run dev', () => {
  it('without credentials runs against the simulator, restarts on a change, and leaves nothing behind', async () => {
    folder = await mkdtemp(join(tmpdir(), 'activity-sync-start-'));
    await chmod(folder, 0o755);
    const source = (path: string) => fileURLToPath(new URL(`../../src/${path}`, import.meta.url));
    const dev = spawn(process.execPath, [source('start.js'), 'dev'], {
      cwd: folder, // without an .env
      env: { ...MACHINE_ENVIRONMENT, TMPDIR: folder },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let printed = '';
    dev.stdout.on('data', (chunk) => {
      printed += chunk;
    });
    const end = once(dev, 'close');
    await until(() => printed.includes('Development against the simulated provider'), 'the banner', 30_000);
    expect(printed.match(/athlete connected/g)).toHaveLength(3);
    printed = '';
    const now = new Date();
    await utimes(source('dev.ts'), now, now);
    await until(() => printed.includes('service started'), 'the restart', 30_000);
    dev.kill('SIGINT');
    const [code] = (await end) as [number | null];
    expect({ code, left: await readdir(folder), printed }).toEqual({
      code: 0,
      left: [],
      printed: expect.stringContaining('service stopped'),
    });
  }, 70_000);
});

describe('a process that is asked to stop', () => {
  it('during its start closes what it has opened, its own database too', async () => {
    folder = await mkdtemp(join(tmpdir(), 'activity-sync-start-'));
    await chmod(folder, 0o755);
    const dataDir = join(folder, 'data');
    const started = startServiceProcess(
      testEnvironment('http://127.0.0.1:1', { PORT: String(await freePort()), DATA_DIR: dataDir }),
    );
    await until(() => started.output().includes('PostgreSQL runs on'), 'the start of the database');
    const code = await started.end('SIGTERM');
    const said: string[] = [];
    await removeEmbeddedPostgres({ dataDir, log: (_level, message) => said.push(message) });
    expect({ code, said: said.join('\n') }).toEqual({ code: 0, said: expect.not.stringMatching(/stop/i) });
  });

  it('while it waits for another process’s migration stops waiting', async () => {
    const database = await createTestDatabase({ template: false });
    const other = openTestDatabase(database.url);
    await other.transaction(async (tx) => {
      await tx.query(`SELECT pg_advisory_xact_lock(hashtextextended('activity-sync migrate', 0))`);
      const started = startServiceProcess(
        testEnvironment('http://127.0.0.1:1', { PORT: String(await freePort()), DATABASE_URL: database.url }),
      );
      await until(() => started.output().includes('another process is migrating'), 'the wait for the other process');
      expect(await started.end('SIGTERM')).toBe(0);
    });
    await other.close();
    await database.drop();
  });

  it('twice at once, by the terminal and by npm, still stops in order', async () => {
    const database = await createTestDatabase();
    const started = startServiceProcess(
      testEnvironment('http://127.0.0.1:1', { PORT: String(await freePort()), DATABASE_URL: database.url }),
    );
    await started.ready();
    started.child.kill('SIGTERM');
    const code = await started.end('SIGINT');
    await database.drop();
    expect({ code, printed: started.output() }).toEqual({
      code: 0,
      printed: expect.stringContaining('service stopped'),
    });
  });

  it('stops its own database without a warning', async () => {
    folder = await mkdtemp(join(tmpdir(), 'activity-sync-start-'));
    await chmod(folder, 0o755);
    const started = startServiceProcess(
      testEnvironment('http://127.0.0.1:1', {
        PORT: String(await freePort()),
        DATA_DIR: join(folder, 'data'),
        LOG_LEVEL: 'warn',
      }),
    );
    await started.ready();
    expect({ code: await started.end('SIGTERM'), printed: started.output() }).toEqual({ code: 0, printed: '' });
  });

  it.each(['SIGTERM', 'SIGKILL'] as const)('by a %s to npm alone ends, and its database with it', async (signal) => {
    folder = await mkdtemp(join(tmpdir(), 'activity-sync-start-'));
    await chmod(folder, 0o755);
    const dataDir = join(folder, 'data');
    const npm = spawn('npm', ['start'], {
      cwd: fileURLToPath(new URL('../..', import.meta.url)),
      env: {
        ...MACHINE_ENVIRONMENT,
        ...testEnvironment('http://127.0.0.1:1', { PORT: String(await freePort()), DATA_DIR: dataDir }),
      },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let printed = '';
    npm.stdout.on('data', (chunk) => {
      printed += chunk;
    });
    // The pipe closes when every process that writes to it has ended.
    const end = once(npm, 'close');
    await until(() => printed.includes('service started'), 'the start of the service', 30_000);
    npm.kill(signal);
    await end;
    expect(printed).toContain('service stopped');
    await removeEmbeddedPostgres({ dataDir, log: () => undefined }); // refused while a server runs
    expect(npm.signalCode).toBe(signal === 'SIGKILL' ? 'SIGKILL' : null);
    expect(npm.exitCode).toBe(signal === 'SIGKILL' ? null : 0);
  });

  it('leaves nothing of a demo that has just started', async () => {
    expect(await endDemo((demo) => demo.kill('SIGINT'))).toEqual({ code: 0, left: [] });
  });

  it('leaves nothing of a demo whose terminal is closed', async () => {
    const closeTerminal = (demo: ChildProcess) => {
      demo.stdout?.destroy();
      demo.kill('SIGHUP');
    };
    expect(await endDemo(closeTerminal)).toEqual({ code: 0, left: [] });
  });

  /** @returns its exit code, and what is left where it kept its data */
  async function endDemo(end: (demo: ChildProcess) => void): Promise<{ code: number | null; left: string[] }> {
    folder = await mkdtemp(join(tmpdir(), 'activity-sync-start-'));
    await chmod(folder, 0o755);
    const demo = spawn(process.execPath, [fileURLToPath(new URL('../../src/demo.ts', import.meta.url))], {
      env: { ...MACHINE_ENVIRONMENT, TMPDIR: folder },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    demo.stdout.once('data', () => demo.stdout.once('data', () => end(demo)));
    const [code] = (await once(demo, 'close')) as [number | null];
    const left = await readdir(folder);
    for (const name of left)
      await removeEmbeddedPostgres({ dataDir: join(folder, name), log: () => undefined }).catch(() => undefined);
    return { code, left };
  }
});
