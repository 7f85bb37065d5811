import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { type BudgetRig, startBudgetRig, WINDOW_MS, WINDOW_START } from '../support/budget-rig.ts';
import { startClockedRig } from '../support/clocked-rig.ts';
import type { Rig } from '../support/service.ts';

const GUARD_MS = 2000;
const LAG_MS = 1000;
const TURN_MS = GUARD_MS + LAG_MS;
const MINUTE_MS = 60_000;

const at = (ms: number): Date => new Date(WINDOW_START + ms);

describe('a call that was granted and has not left in time', () => {
  let rig: BudgetRig;
  beforeEach(async () => {
    rig = await startBudgetRig(100);
  });
  afterEach(() => rig.close());

  const grantAt = async (ms: number): Promise<string> => {
    await rig.goTo(ms);
    expect(await rig.budget.take('webhook')).toBeUndefined();
    return at(ms).toISOString();
  };
  const renewAt = async (ms: number, grantedAt: string): Promise<Date | undefined> => {
    await rig.goTo(ms);
    return rig.budget.renew('webhook', grantedAt);
  };
  const used = async () => (await rig.budget.read()).used;

  it('costs nothing more while its window lasts, even when nothing is left', async () => {
    const grantedAt = await grantAt(MINUTE_MS);
    await rig.takeAll('webhook');
    expect(await renewAt(WINDOW_MS - TURN_MS - 1, grantedAt)).toBeUndefined();
    expect(await used()).toBe(100);
  });

  it('is taken again where it could count in the next window', async () => {
    const grantedAt = await grantAt(MINUTE_MS);
    expect(await renewAt(WINDOW_MS - TURN_MS, grantedAt)).toBeUndefined();
    expect(await used()).toBe(2);
    await rig.goTo(WINDOW_MS);
    expect(await used()).toBe(1);
  });

  it('is taken again in a later window, or waits for one', async () => {
    const grantedAt = await grantAt(MINUTE_MS);
    expect(await renewAt(WINDOW_MS + MINUTE_MS, grantedAt)).toBeUndefined();
    expect(await used()).toBe(1);
    await rig.takeAll('webhook');
    expect(await rig.budget.renew('webhook', grantedAt)).toEqual(at(2 * WINDOW_MS + GUARD_MS));
  });

  it('costs nothing more in the next window where it was charged to both', async () => {
    const grantedAt = await grantAt(WINDOW_MS - TURN_MS);
    expect(await renewAt(2 * WINDOW_MS - TURN_MS - 1, grantedAt)).toBeUndefined();
    expect(await used()).toBe(1);
  });

  it('waits like every other call after a 429', async () => {
    const grantedAt = await grantAt(MINUTE_MS);
    const until = await rig.budget.block(5 * MINUTE_MS, 'The provider answered HTTP 429');
    expect(await renewAt(2 * MINUTE_MS, grantedAt)).toEqual(until);
    expect(await renewAt(6 * MINUTE_MS, grantedAt)).toBeUndefined();
    expect(await used()).toBe(1);
  });

  it('never brings a window over its capacity, with a provider whose clock is 2 s off', async () => {
    const left: number[] = [];
    const leave = (calls: number, ms: number) => left.push(...Array.from({ length: calls }, () => ms));
    // Twenty calls of a full window are late by nearly all of it; then the next window is used up as well.
    const moments = [-5000, -3001, -3000, -2500, -2001, -2000, -1000, -1, 0, 1000, 1999, 2000, 5000];
    for (const [n, moment] of moments.entries()) {
      const start = 2 * n * WINDOW_MS;
      const end = start + WINDOW_MS;
      await rig.goTo(start + MINUTE_MS);
      expect(await rig.takeAll('webhook')).toBe(100);
      leave(80, start + MINUTE_MS);
      await rig.goTo(end + moment);
      for (let late = 0; late < 20; late += 1) {
        if (!(await rig.budget.renew('webhook', at(start + MINUTE_MS).toISOString()))) leave(1, end + moment);
      }
      await rig.goTo(end + Math.max(GUARD_MS, moment));
      const rest = await rig.takeAll('webhook');
      leave(rest, end + Math.max(GUARD_MS, moment));
      expect(rest).toBeGreaterThanOrEqual(80);
    }
    for (const clockOffsetMs of [-GUARD_MS, 0, GUARD_MS]) {
      for (const lagMs of [0, LAG_MS - 1]) {
        const windows = new Map<number, number>();
        for (const leftAt of left) {
          const window = Math.floor((leftAt + lagMs + clockOffsetMs) / WINDOW_MS);
          windows.set(window, (windows.get(window) ?? 0) + 1);
        }
        expect(Math.max(...windows.values())).toBe(100);
      }
    }
  });
});

describe('a token refresh that outlives its grant', () => {
  let rig: Rig;
  afterEach(() => rig.close());

  it('costs its job no second call for the activity', async () => {
    rig = await startClockedRig({ PROVIDER_RATE_LIMIT_INTERVAL: String(MINUTE_MS) }, { start: '2025-05-06T12:05:30Z' });
    const athleteId = await rig.connectAthlete();
    rig.simulator.invalidateAccessToken(athleteId);
    await rig.service.database.query('UPDATE athlete SET token_expires_at = sync_now()');
    rig.simulator.faults.add({ kind: 'latency', latencyMs: 200, match: { path: /oauth\/token/ } });
    const before = (await rig.service.budget.read()).used;
    const { id } = rig.simulator.addActivity(athleteId);
    const webhook = `${rig.service.url}/api/provider/webhook`;
    await rig.simulator.deliver({ object_id: id, owner_id: athleteId }, { url: webhook });
    await rig.untilJob(id, ({ outcome }) => outcome === 'stored');
    expect((await rig.service.budget.read()).used - before).toBe(1);
  });
});
