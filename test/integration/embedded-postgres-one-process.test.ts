import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import { removeEmbeddedPostgres } from '../../src/infra/embedded-postgres.ts';
import {
  createEmbeddedPostgresRig,
  type EmbeddedPostgresRig,
  readNote,
  writeNote,
} from '../support/embedded-postgres-rig.ts';

const SERVICE_PROCESS = new URL('../support/embedded-postgres-process.ts', import.meta.url).pathname;

let rig: EmbeddedPostgresRig;
let services: ChildProcess[] = [];
beforeAll(async () => {
  rig = await createEmbeddedPostgresRig();
});
afterEach(async () => {
  for (const service of services) if (service.exitCode === null && service.signalCode === null) await killHard(service);
  services = [];
  await rig.stopServers();
});
afterAll(() => rig.close());

describe('one process for each data folder', () => {
  it('refuses a second start while the first process lives, and names its server', async () => {
    const { service, pid } = await startService();
    await expect(rig.start()).rejects.toMatchObject({
      code: 'ALREADY_RUNNING',
      message: expect.stringContaining(`PostgreSQL (process ${pid}) already runs on ${rig.dataDir}/postgres`),
    });
    const exit = once(service, 'exit');
    service.send('stop');
    await exit;
    await rig.start();
  });

  it('refuses a second start in the same process', async () => {
    await rig.start();
    await expect(rig.start()).rejects.toMatchObject({ code: 'ALREADY_RUNNING' });
  });

  it('lets one of two first starts at the same time have the folder', async () => {
    const dataDir = join(rig.folder, 'contested');
    const starts = await Promise.allSettled([rig.start({ dataDir }), rig.start({ dataDir })]);
    const refusals = starts.filter((start) => start.status === 'rejected').map(({ reason }) => reason.code);
    expect(refusals).toEqual(['ALREADY_RUNNING']);
  });

  it('starts after a service that was killed, and keeps what it committed', async () => {
    const { service, connectionString, pid } = await startService();
    const note = await writeNote(connectionString);
    await killHard(service);
    const server = await rig.start();
    expect(server.pid).not.toBe(pid);
    expect(await readNote(server.connectionString)).toBe(note);
    expect(rig.logLines.join('\n')).not.toContain('recovery');
  });

  it('ends the server of a service that was killed, without another start', async () => {
    const { service, connectionString } = await startService();
    const session = new pg.Client({ connectionString });
    session.on('error', () => undefined);
    await session.connect();
    const sessionEnd = new Promise((resolve) => session.once('end', resolve));
    await Promise.all([killHard(service), sessionEnd]);
    await removeEmbeddedPostgres({ dataDir: rig.dataDir, log: () => undefined });
  });

  it('ends the server when a process exits without stopping it', async () => {
    const { service, connectionString } = await startService();
    const session = new pg.Client({ connectionString });
    session.on('error', () => undefined);
    await session.connect();
    const sessionEnd = new Promise((resolve) => session.once('end', resolve));
    const exit = once(service, 'exit');
    service.send('exit');
    await Promise.all([exit, sessionEnd]);
    await rig.start();
  });
});

async function startService(): Promise<{ service: ChildProcess; connectionString: string; pid: number }> {
  const service = fork(SERVICE_PROCESS, [rig.dataDir], { execArgv: [] });
  services.push(service);
  const [message] = (await once(service, 'message')) as [{ connectionString: string; pid: number }];
  return { service, ...message };
}

async function killHard(service: ChildProcess): Promise<void> {
  const exit = once(service, 'exit');
  service.kill('SIGKILL');
  await exit;
}
