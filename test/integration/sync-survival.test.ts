import { once } from 'node:events';
import { afterEach, describe, expect, it } from '@jest/globals';
import type { CallRecord } from '../../src/simulator/call-log.ts';
import { type Rig, startRig, testEnvironment } from '../support/service.ts';
import { freePort, startServiceProcess } from '../support/service-process.ts';

const KILLS = 10;
const SOME_KILLS = 3;
// More pages than the killed processes get to.
const LONG = 3000;
const PATIENCE_MS = 180_000;
let rig: Rig | undefined;
afterEach(async () => {
  await rig?.close();
  rig = undefined;
});

const isList = (call: CallRecord) => call.path === '/api/v3/athlete/activities';
const isDetail = (call: CallRecord) => call.activityId !== undefined;
const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** @param timeoutMs of a provider call; a page that a killed process had claimed is free again after three of them */
async function environmentOf(of: Rig, roles: string, timeoutMs = 600): Promise<Record<string, string>> {
  return testEnvironment(of.simulator.url, {
    DATABASE_URL: of.database.url,
    PORT: String(await freePort()),
    SERVICE_ROLES: roles,
    FETCH_TIMEOUT_MS: String(timeoutMs),
    FETCH_STALE_AFTER_MS: '1000',
    FETCH_BACKOFF_BASE_MS: '20',
    PROVIDER_RATE_LIMIT_CAPACITY: '1000000',
  });
}

/** Resolves when `count` more calls of that kind have arrived. */
function untilCalls(of: Rig, fits: (call: CallRecord) => boolean, count: number): Promise<void> {
  return new Promise((resolve) => {
    let left = count;
    const listener = (call: CallRecord) => {
      if (!fits(call) || --left > 0) return;
      of.simulator.off('arrival', listener);
      resolve();
    };
    of.simulator.on('arrival', listener);
  });
}

/** Starts a process, lets it work until `arrived`, and kills it. */
async function killOnce(environment: Record<string, string>, arrived: Promise<void>, laterMs = 0): Promise<void> {
  const process = startServiceProcess(environment);
  const ended = once(process.child, 'exit').then(() => {
    throw new Error(`The process exited unexpectedly: ${process.output()}`);
  });
  ended.catch(() => undefined); // killed on purpose below
  await Promise.race([arrived, ended]);
  await pause(laterMs);
  await process.end('SIGKILL');
}

async function beginSync(of: Rig, athleteId: string, body: object): Promise<string> {
  const answer = await of.admin(`/api/admin/athletes/${athleteId}/sync`, {
    method: 'POST',
    body: JSON.stringify(body),
  });
  expect(answer.status).toBe(202);
  return ((await answer.json()) as { url: string }).url;
}

async function untilFinished(of: Rig, url: string): Promise<Record<string, unknown>> {
  for (;;) {
    const sync = (await (await of.admin(url)).json()) as { state: string };
    if (sync.state === 'finished') return sync;
    await pause(25);
  }
}

describe('a sync whose process is stopped', () => {
  it('is handed over at once, without waiting for the claim to expire', async () => {
    rig = await startRig({ env: { SERVICE_ROLES: 'web' } });
    const athleteId = await rig.connectAthlete();
    rig.simulator.addHistory(athleteId, 3);
    const hold = rig.simulator.faults.add({ kind: 'hold', match: { athleteId } });
    const url = await beginSync(rig, athleteId, {});
    const first = await rig.startReplica({ SERVICE_ROLES: 'fetch', FETCH_TIMEOUT_MS: '60000' });
    await hold.held;
    await first.stop(0);
    hold.remove();
    await rig.startReplica({ SERVICE_ROLES: 'fetch', FETCH_TIMEOUT_MS: '60000' });
    expect(await untilFinished(rig, url)).toMatchObject({ fetched: 3 });
  });
});

describe('a sync whose process is killed again and again', () => {
  it(
    'fetches each activity once, also with force, whatever it was doing when it was killed',
    async () => {
      rig = await startRig({ env: { SERVICE_ROLES: 'web' }, simulator: { latencyMs: 8 } });
      const athleteId = await rig.connectAthlete();
      const ids = rig.simulator.addHistory(athleteId, LONG).map(({ id }) => id);
      const url = await beginSync(rig, athleteId, { force: true, before: new Date().toISOString() });
      const environment = await environmentOf(rig, 'polling');
      for (let kill = 0; kill < SOME_KILLS; kill += 1) {
        // From within the call, over its transaction, to the page after.
        await killOnce(environment, untilCalls(rig, isList, 2), kill * 4);
      }
      const successor = startServiceProcess(environment);
      for (;;) {
        const sync = (await (await rig.admin(url)).json()) as { total: number | null };
        if (sync.total !== null) break;
        await pause(25);
      }
      await successor.end('SIGTERM');
      expect(await (await rig.admin(url)).json()).toMatchObject({
        state: 'running',
        listed: LONG,
        queued: LONG,
        total: LONG,
      });
      const jobs = await rig.service.database.query('SELECT version FROM activity_fetch_job');
      expect(jobs.filter((job) => job.version === 1)).toHaveLength(ids.length);
    },
    PATIENCE_MS,
  );

  it(
    'ends with each activity fetched once, after ten kills',
    async () => {
      rig = await startRig({ env: { SERVICE_ROLES: 'web' }, simulator: { latencyMs: 8 } });
      const athleteId = await rig.connectAthlete();
      const ids = rig.simulator.addHistory(athleteId, 210).map(({ id }) => id);
      const url = await beginSync(rig, athleteId, {});
      const environment = await environmentOf(rig, 'polling', 350);
      // Each process dies in the middle of a page; the last one may get to its transaction.
      for (let kill = 0; kill < KILLS; kill += 1) {
        const match = { path: /athlete\/activities/ };
        const stuck = kill < KILLS - 1 ? rig.simulator.faults.add({ kind: 'hang', match }) : undefined;
        await killOnce(environment, untilCalls(rig, isList, 1), kill);
        stuck?.remove();
      }
      await rig.startReplica({ SERVICE_ROLES: 'polling,fetch' });
      expect(await untilFinished(rig, url)).toMatchObject({ listed: 210, queued: 210, fetched: 210 });
      const calls = rig.simulator.calls.filter(isDetail).map((call) => call.activityId);
      expect(calls.sort()).toEqual(ids.sort());
    },
    PATIENCE_MS,
  );

  it(
    'ends with every activity stored where the fetches are killed with it; only those under way are repeated',
    async () => {
      rig = await startRig({ env: { SERVICE_ROLES: 'web' }, simulator: { latencyMs: 8 } });
      const athleteId = await rig.connectAthlete();
      const ids = rig.simulator.addHistory(athleteId, 120).map(({ id }) => id);
      const url = await beginSync(rig, athleteId, {});
      const environment = await environmentOf(rig, 'polling,fetch');
      for (let kill = 0; kill < SOME_KILLS; kill += 1) {
        await killOnce(environment, untilCalls(rig, isDetail, 10));
      }
      await rig.startReplica({
        SERVICE_ROLES: 'polling,fetch',
        FETCH_STALE_AFTER_MS: '1000',
        FETCH_BACKOFF_BASE_MS: '20',
      });
      expect(await untilFinished(rig, url)).toMatchObject({ queued: 120, fetched: 120, fetchesFailed: 0 });
      const stored = await rig.service.database.query('SELECT FROM activity');
      expect(stored).toHaveLength(ids.length);
      expect(rig.simulator.calls.filter(isDetail).length).toBeLessThanOrEqual(120 + SOME_KILLS * 3);
    },
    PATIENCE_MS,
  );
});
