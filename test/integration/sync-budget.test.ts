import { afterEach, describe, expect, it } from '@jest/globals';
import type { SyncProgress } from '../../src/flows/sync-progress.ts';
import { type ClockedRig, startClockedRig } from '../support/clocked-rig.ts';

const SECOND = 1000;
const MINUTE = 60 * SECOND;
let rig: ClockedRig;
afterEach(() => rig.close());

async function show(url: string): Promise<SyncProgress> {
  return (await (await rig.admin(url)).json()) as SyncProgress;
}

async function begin(athleteId: string): Promise<string> {
  const answer = await rig.admin(`/api/admin/athletes/${athleteId}/sync`, { method: 'POST' });
  return ((await answer.json()) as { url: string }).url;
}

/** Lets time pass until the sync fits. */
async function pass(url: string, fits: (sync: SyncProgress) => boolean, stepMs = 5 * SECOND): Promise<SyncProgress> {
  for (;;) {
    const sync = await show(url);
    if (fits(sync)) return sync;
    await rig.advance(stepMs);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

describe('a bulk sync on a small budget', () => {
  it('keeps to its share of each window, says that it waits, and ends about as predicted', async () => {
    rig = await startClockedRig({ PROVIDER_RATE_LIMIT_CAPACITY: '40' });
    const athleteId = await rig.connectAthlete();
    rig.simulator.addHistory(athleteId, 90);
    const url = await begin(athleteId);
    const listed = await pass(url, ({ total }) => total !== null);
    expect(listed).toMatchObject({ state: 'running', listed: 90, queued: 90, total: 90 });
    const expectedEnd = Date.parse(listed.expectedEnd as string);

    const waiting = await pass(url, ({ state }) => state === 'waiting');
    expect(Date.parse(waiting.waitingUntil as string)).toBeGreaterThanOrEqual(Date.parse('2025-05-06T12:15:00Z'));
    expect(waiting.fetched).toBeLessThanOrEqual(36);

    const finished = await pass(url, ({ state }) => state === 'finished');
    expect(finished).toMatchObject({ fetched: 90, expectedEnd: null });
    const tookMs = rig.clock.now() - Date.parse(finished.createdAt);
    expect(Math.abs(rig.clock.now() - expectedEnd)).toBeLessThan(0.2 * tookMs);
    const byWindow = new Map<number, number>();
    for (const call of rig.simulator.calls.filter(({ counted }) => counted))
      byWindow.set(call.window, (byWindow.get(call.window) ?? 0) + 1);
    for (const calls of byWindow.values()) expect(calls).toBeLessThanOrEqual(36);
  }, 60_000);

  it('expects to end when the athlete’s cooldowns are over, where the budget is large', async () => {
    rig = await startClockedRig({ PROVIDER_ATHLETE_COOLDOWN: '15000' });
    const athleteId = await rig.connectAthlete();
    rig.simulator.addHistory(athleteId, 40);
    const url = await begin(athleteId);
    const listed = await pass(url, ({ total }) => total !== null);
    const leftMs = (listed.queued - listed.fetched) * 15 * SECOND;
    expect(Math.abs(Date.parse(listed.expectedEnd as string) - rig.clock.now() - leftMs)).toBeLessThan(MINUTE);
  });

  it('stops with everyone after a 429, and continues afterwards', async () => {
    rig = await startClockedRig();
    const athleteId = await rig.connectAthlete();
    const ids = rig.simulator.addHistory(athleteId, 5).map(({ id }) => id);
    rig.simulator.faults.add({
      kind: 'retryAfter429',
      retryAfter: 300,
      match: { path: /athlete\/activities/ },
      times: 1,
    });
    const url = await begin(athleteId);
    const waiting = await pass(url, ({ state }) => state === 'waiting', 0);
    expect(Date.parse(waiting.waitingUntil as string) - rig.clock.now()).toBeGreaterThan(290 * SECOND);
    expect(await pass(url, ({ state }) => state === 'finished', MINUTE)).toMatchObject({ fetched: 5 });
    expect(ids.map((id) => rig.simulator.calls.filter((call) => call.activityId === id).length)).toEqual(
      ids.map(() => 1),
    );
  });
});
