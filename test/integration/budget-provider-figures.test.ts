import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { type BudgetRig, startBudgetRig, WINDOW_MS, WINDOW_START } from '../support/budget-rig.ts';

const GUARD_MS = 2000;
const MINUTE_MS = 60_000;
const NOON_TO_MIDNIGHT_MS = 12 * 60 * MINUTE_MS;

let rig: BudgetRig;
beforeEach(async () => {
  rig = await startBudgetRig(100);
});
afterEach(() => rig.close());

const at = (ms: number): Date => new Date(WINDOW_START + ms);
const usage = (used: number, dailyUsed = used, limit = 100, dailyLimit = 1000) => ({
  limit,
  used,
  dailyLimit,
  dailyUsed,
});

describe('the provider’s usage figures', () => {
  it('show what others spend with the same credentials', async () => {
    await rig.budget.correct(usage(60), 50);
    expect(await rig.takeAll('webhook')).toBe(40);
  });

  it('never return calls that we have granted', async () => {
    await rig.takeAll('webhook', 60);
    await rig.budget.correct(usage(2), 50);
    expect(await rig.takeAll('webhook')).toBe(40);
  });

  it('lower the capacity to the provider’s own limit', async () => {
    await rig.budget.correct(usage(0, 0, 40), 50);
    expect(await rig.takeAll('webhook')).toBe(40);
  });

  it('do not raise it above the configured one', async () => {
    await rig.budget.correct(usage(0, 0, 5000), 50);
    expect(await rig.takeAll('webhook')).toBe(100);
  });

  it('are ignored when they may be about another window', async () => {
    await rig.goTo(WINDOW_MS + GUARD_MS + 100);
    await rig.budget.correct(usage(99), 5000); // left before the turn
    expect(await rig.takeAll('webhook', 50)).toBe(50);
    await rig.goTo(2 * WINDOW_MS - 1000); // the provider may have turned already
    await rig.budget.correct(usage(100), 10);
    expect(await rig.takeAll('webhook')).toBe(50);
  });

  it('stop everyone for the rest of the UTC day when its limit is reached', async () => {
    await rig.budget.correct(usage(10, 1000), 50);
    for (const reason of ['webhook', 'manual', 'polling'] as const) {
      expect(await rig.budget.take(reason)).toEqual(at(NOON_TO_MIDNIGHT_MS + GUARD_MS));
    }
    expect(await rig.budget.read()).toMatchObject({
      blockedUntil: at(NOON_TO_MIDNIGHT_MS + GUARD_MS),
      blockedBy: 'The provider’s limit for the UTC day is reached.',
      daily: { used: 1000, limit: 1000 },
    });
    await rig.goTo(NOON_TO_MIDNIGHT_MS + GUARD_MS);
    expect(await rig.budget.take('webhook')).toBeUndefined();
    expect(await rig.budget.read()).toMatchObject({ blockedUntil: null, blockedBy: null });
  });

  it('keep the last tenth of the day’s calls for webhooks', async () => {
    await rig.budget.correct(usage(10, 890), 50);
    await rig.goTo(WINDOW_MS - 30_000); // no pacing holds anyone back
    expect(await rig.takeAll('manual')).toBe(10);
    for (const reason of ['manual', 'polling'] as const)
      expect(await rig.budget.take(reason)).toEqual(at(NOON_TO_MIDNIGHT_MS + GUARD_MS));
    expect(await rig.budget.read()).toMatchObject({ blockedUntil: null });
    expect(await rig.takeAll('webhook', 70)).toBe(70);
    await rig.goTo(NOON_TO_MIDNIGHT_MS + 60_000);
    expect(await rig.budget.take('manual')).toBeUndefined();
  });

  it('of a spent day do not hide a 429 that stops everyone for longer', async () => {
    await rig.budget.correct(usage(10, 1000), 50);
    const dayLater = at(MINUTE_MS + 24 * 60 * MINUTE_MS);
    expect(await rig.budget.block(86_400_000, 'HTTP 429')).toEqual(dayLater);
    expect(await rig.budget.read()).toMatchObject({ blockedUntil: dayLater, blockedBy: 'HTTP 429' });
  });

  it('of yesterday do not stop today', async () => {
    await rig.goTo(NOON_TO_MIDNIGHT_MS + GUARD_MS + 500);
    await rig.budget.correct(usage(1, 1000), 4000);
    expect(await rig.budget.take('webhook')).toBeUndefined();
  });

  it('count our own calls of the day', async () => {
    await rig.budget.correct(usage(5, 950), 50);
    expect(await rig.takeAll('webhook')).toBe(50);
  });
});

describe('a 429', () => {
  it('stops every reason until its Retry-After is over', async () => {
    expect(await rig.budget.block(90_000, 'HTTP 429')).toEqual(at(MINUTE_MS + 90_000));
    for (const reason of ['webhook', 'manual', 'polling'] as const) {
      expect(await rig.budget.take(reason)).toEqual(at(MINUTE_MS + 90_000));
    }
    expect(await rig.budget.read()).toMatchObject({ blockedUntil: at(MINUTE_MS + 90_000), blockedBy: 'HTTP 429' });
    await rig.goTo(MINUTE_MS + 90_000);
    expect(await rig.budget.take('webhook')).toBeUndefined();
  });

  it('without one stops them until the window rolls over', async () => {
    expect(await rig.budget.block(undefined, 'HTTP 429')).toEqual(at(WINDOW_MS + GUARD_MS));
  });

  it('cannot stop them for longer than a day, and a shorter wait ends no longer one', async () => {
    const day = at(MINUTE_MS + 24 * 60 * MINUTE_MS);
    expect(await rig.budget.block(999_999_999_000, 'HTTP 429')).toEqual(day);
    expect(await rig.budget.block(1000, 'HTTP 429')).toEqual(day);
  });

  it('halves the capacity once a window, to a tenth at least, and each clean window gives a tenth back', async () => {
    const capacityAt = async (window: number) => {
      await rig.goTo(window * WINDOW_MS + MINUTE_MS);
      return (await rig.budget.read()).capacity;
    };
    await rig.budget.block(0, 'HTTP 429');
    await rig.budget.block(0, 'HTTP 429');
    expect(await capacityAt(0)).toBe(50);
    expect(await capacityAt(1)).toBe(50); // the window of the 429 was not clean
    for (const halved of [25, 12, 10, 10]) {
      await rig.budget.block(0, 'HTTP 429');
      expect((await rig.budget.read()).capacity).toBe(halved);
      await rig.goTo(rig.clock.now() - WINDOW_START + WINDOW_MS);
    }
    expect(await capacityAt(5)).toBe(10);
    expect(await capacityAt(6)).toBe(20);
    expect(await rig.takeAll('webhook')).toBe(20);
    expect(await capacityAt(7)).toBe(30);
    expect(await capacityAt(13)).toBe(90);
    expect(await rig.budget.read()).toMatchObject({ reducedCapacity: 90 });
    expect(await capacityAt(14)).toBe(100);
    expect(await rig.budget.read()).toMatchObject({ reducedCapacity: null });
  });
});
