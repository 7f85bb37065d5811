import { mkdir, readdir, readlink, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import type { EmbeddedPostgresError } from '../../src/infra/embedded/embedded-postgres-error.ts';
import { type EmbeddedPostgres, removeEmbeddedPostgres } from '../../src/infra/embedded-postgres.ts';
import {
  createEmbeddedPostgresRig,
  type EmbeddedPostgresRig,
  query,
  readNote,
  writeNote,
} from '../support/embedded-postgres-rig.ts';

let rig: EmbeddedPostgresRig;
beforeAll(async () => {
  rig = await createEmbeddedPostgresRig();
});
afterEach(() => rig.stopServers());
afterAll(() => rig.close());

describe('the embedded PostgreSQL', () => {
  it('is a UTF8 server in UTC that only this machine reaches and only with the password', async () => {
    const server = await rig.start();
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
    expect((await stat(join(rig.dataDir, 'postgres-password'))).mode & 0o777).toBe(0o600);
  });

  it('keeps its data and its password over a restart', async () => {
    const first = await rig.start();
    const note = await writeNote(first.connectionString);
    await first.stop();
    const second = await rig.start();
    expect(await readNote(second.connectionString)).toBe(note);
    expect(new URL(second.connectionString).password).toBe(new URL(first.connectionString).password);
  });

  it('can be stopped twice', async () => {
    const server = await rig.start();
    await Promise.all([server.stop(), server.stop()]);
    await server.stop();
    await expect(query(server.connectionString, 'SELECT 1')).rejects.toMatchObject({ code: 'ECONNREFUSED' });
  });

  it('says when the server is killed, and recovers what was committed at the next start', async () => {
    let hearOfEnd: (error: EmbeddedPostgresError) => void;
    const unexpectedEnd = new Promise<EmbeddedPostgresError>((resolve) => {
      hearOfEnd = resolve;
    });
    const first = await rig.start({ onUnexpectedEnd: (error) => hearOfEnd(error) });
    const note = await writeNote(first.connectionString);
    process.kill(first.pid, 'SIGKILL');
    expect(await unexpectedEnd).toMatchObject({ code: 'ENDED', message: expect.stringContaining('SIGKILL') });
    await first.stop();
    const second = await rig.start();
    expect(await readNote(second.connectionString)).toBe(note);
    expect(rig.logLines.join('\n')).toContain('automatic recovery in progress');
  });

  it('starts although the process id of a crashed server now belongs to another process', async () => {
    const first = await rig.start();
    await first.stop();
    await writeFile(
      join(rig.dataDir, 'postgres', 'postmaster.pid'),
      `${process.ppid}\n${join(rig.dataDir, 'postgres')}\n`,
    );
    const second = await rig.start();
    expect(await query(second.connectionString, 'SELECT 1 AS alive')).toEqual([{ alive: 1 }]);
  });

  it('gets a new password when the kept one is lost', async () => {
    const first = await rig.start();
    const note = await writeNote(first.connectionString);
    await first.stop();
    await rm(join(rig.dataDir, 'postgres-password'));
    const second = await rig.start();
    expect(await readNote(second.connectionString)).toBe(note);
  });

  it('leaves a folder in its place that is not a cluster alone', async () => {
    const dataDir = join(rig.folder, 'occupied');
    await mkdir(join(dataDir, 'postgres'), { recursive: true });
    await writeFile(join(dataDir, 'postgres', 'notes.txt'), 'mine');
    await expect(rig.start({ dataDir })).rejects.toMatchObject({
      code: 'CLUSTER_UNUSABLE',
      message: expect.stringContaining('move the folder away'),
    });
    expect(await readdir(join(dataDir, 'postgres'))).toEqual(['notes.txt']);
  });

  it('refuses a cluster of another PostgreSQL version', async () => {
    const dataDir = join(rig.folder, 'older');
    await mkdir(join(dataDir, 'postgres'), { recursive: true });
    await writeFile(join(dataDir, 'postgres', 'PG_VERSION'), '15\n');
    await expect(rig.start({ dataDir })).rejects.toMatchObject({
      code: 'CLUSTER_UNUSABLE',
      message: expect.stringContaining('was created by PostgreSQL 15'),
    });
  });
});

// Only root can hand the server to another account.
if (process.getuid?.() === 0) {
  describe('started by root in a folder that no other account can enter', () => {
    let dataDir: string;

    async function startInClosedFolder(): Promise<EmbeddedPostgres> {
      const home = join(rig.folder, 'home');
      await mkdir(home, { recursive: true, mode: 0o700 });
      dataDir = join(home, 'data');
      return rig.start({ dataDir, sharedDir: join(rig.folder, 'shared') });
    }

    async function readPlace(): Promise<string> {
      return readlink(join(dataDir, 'postgres'));
    }

    it('keeps the cluster elsewhere, links to it and finds it again', async () => {
      const first = await startInClosedFolder();
      const note = await writeNote(first.connectionString);
      await first.stop();
      const place = await readPlace();
      expect(place).toContain(join(rig.folder, 'shared', 'clusters'));
      expect((await stat(place)).mode & 0o777).toBe(0o700);
      const second = await startInClosedFolder();
      expect(await readNote(second.connectionString)).toBe(note);
      expect(await readPlace()).toBe(place);
    });

    it('finds a cluster whose place an earlier release recorded in a file', async () => {
      const first = await startInClosedFolder();
      const note = await writeNote(first.connectionString);
      await first.stop();
      const place = await readPlace();
      await rm(join(dataDir, 'postgres'));
      await writeFile(join(dataDir, 'postgres-location.json'), JSON.stringify({ clusterDir: place, created: true }));
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
      expect(await readdir(join(rig.folder, 'shared', 'clusters'))).toEqual([]);
      expect(await readdir(dataDir)).toEqual([]);
    });

    it('does not start empty when the link is broken', async () => {
      await (await startInClosedFolder()).stop();
      await rename(await readPlace(), join(rig.folder, 'moved'));
      await expect(startInClosedFolder()).rejects.toMatchObject({
        code: 'CLUSTER_MISSING',
        message: expect.stringContaining('Restore it from a backup'),
      });
    });
  });
}
