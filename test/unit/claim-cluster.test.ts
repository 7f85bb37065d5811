import { mkdir, mkdtemp, readdir, rm, utimes, writeFile } from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { type ClusterClaim, claimCluster } from '../../src/infra/embedded/claim-cluster.ts';
import { identifyProcess, readProcessSpace } from '../../src/infra/embedded/process-identity.ts';

const HEARTBEAT_MS = 20;
const OTHER_CONTAINER = 'other-container pid:[1]';

let folder: string;
let claimsFolder: string;
const held: ClusterClaim[] = [];

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'claims-'));
  claimsFolder = join(folder, 'postgres.claims');
  await mkdir(claimsFolder);
});

afterEach(async () => {
  for (const claim of held.splice(0)) await claim.release();
  await rm(folder, { recursive: true });
});

describe('the claim on a cluster', () => {
  it('is given to one of many that ask at once', async () => {
    expect(await countSuccesses(20)).toBe(1);
    expect(await readdir(claimsFolder)).toEqual(['claim-1']);
  });

  it('is given again after it was released', async () => {
    const first = await claim();
    await first.release();
    await first.release();
    await claim();
  });

  it('passes from a dead process to one of many that ask at once', async () => {
    await writeClaim({ pid: process.pid, startedAt: 'a process before this one, with the same number' });
    expect(await countSuccesses(20)).toBe(1);
    expect(await readdir(claimsFolder)).toEqual(['claim-2']);
  });

  it('passes on when a crash of the machine left it empty', async () => {
    await writeFile(join(claimsFolder, 'claim-1'), '');
    expect(await countSuccesses(1)).toBe(1);
  });

  it('stays with a living process of this machine', async () => {
    await writeClaim({ ...identifyProcess(process.ppid) });
    await expect(claim()).rejects.toMatchObject({
      code: 'ALREADY_RUNNING',
      message: expect.stringContaining(`by process ${process.ppid}.`),
    });
  });

  it('stays with a process in another container for as long as its heart beats', async () => {
    const path = await writeClaim({ ...identifyProcess(process.pid), space: OTHER_CONTAINER });
    const heart = setInterval(() => void utimes(path, new Date(), new Date()), HEARTBEAT_MS);
    try {
      await expect(claim()).rejects.toMatchObject({
        code: 'ALREADY_RUNNING',
        message: expect.stringContaining('on other-container (another machine or container).'),
      });
    } finally {
      clearInterval(heart);
    }
    await claim();
  });

  it('names the space of process numbers by the machine', () => {
    expect(readProcessSpace()).toContain(hostname());
  });
});

async function claim(): Promise<ClusterClaim> {
  const given = await claimCluster(join(folder, 'postgres'), () => undefined, HEARTBEAT_MS);
  held.push(given);
  return given;
}

async function countSuccesses(contenders: number): Promise<number> {
  const outcomes = await Promise.allSettled(Array.from({ length: contenders }, claim));
  const refusals = outcomes.filter((outcome) => outcome.status === 'rejected').map(({ reason }) => reason.code);
  expect(new Set(refusals)).toEqual(new Set(contenders > 1 ? ['ALREADY_RUNNING'] : []));
  return contenders - refusals.length;
}

async function writeClaim(claimant: object): Promise<string> {
  const path = join(claimsFolder, 'claim-1');
  await writeFile(path, JSON.stringify({ space: readProcessSpace(), ...claimant }));
  return path;
}
