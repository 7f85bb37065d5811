import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { type BudgetRig, startBudgetRig, WINDOW_MS, WINDOW_START } from '../support/budget-rig.ts';

const GUARD_MS = 2000;
const LAG_MS = 1000;
const MINUTE_MS = 60_000;

let rig: BudgetRig;
beforeEach(async () => {
  rig = await startBudgetRig(100);
});
afterEach(() => rig.close());

const at = (ms: number): Date => new Date(WINDOW_START + ms);

describe('the budget of a window', () => {
  it('is capacity calls between two multiples of the interval since the epoch', async () => {
    expect(await rig.takeAll('webhook')).toBe(100);
    expect(await rig.budget.take('webhook')).toEqual(at(WINDOW_MS + GUARD_MS));
    expect(await rig.budget.read()).toMatchObject({ windowStart: at(0), windowEnd: at(WINDOW_MS), used: 100, left: 0 });
    await rig.goTo(WINDOW_MS + GUARD_MS);
    expect(await rig.takeAll('webhook')).toBe(100);
  });

  it('is not saved up: an idle hour leaves one window’s calls', async () => {
    await rig.goTo(4 * WINDOW_MS + MINUTE_MS);
    expect(await rig.takeAll('webhook')).toBe(100);
  });

  it('keeps its last tenth for webhooks', async () => {
    await rig.goTo(WINDOW_MS - 10_000);
    expect(await rig.takeAll('polling')).toBe(90);
    expect(await rig.takeAll('manual')).toBe(0);
    expect(await rig.takeAll('webhook')).toBe(10);
  });

  it('counts webhooks against background work too', async () => {
    await rig.goTo(WINDOW_MS - 10_000);
    expect(await rig.takeAll('webhook', 50)).toBe(50);
    expect(await rig.takeAll('manual')).toBe(40);
  });

  it('is spread over the window for background work, and whole for webhooks at once', async () => {
    expect(await rig.takeAll('polling')).toBe(7); // a minute of fifteen
    const next = await rig.budget.take('manual');
    expect(next?.getTime()).toBeCloseTo(WINDOW_START + (WINDOW_MS * 0.95 * 7) / 90, -1);
    await rig.goTo(WINDOW_MS / 2);
    expect(await rig.takeAll('manual')).toBe(41);
    await rig.goTo(WINDOW_MS * 0.96);
    expect(await rig.takeAll('manual')).toBe(42);
    expect(await rig.takeAll('webhook')).toBe(10);
  });

  it('lets background work live on a capacity of one', async () => {
    await rig.budget.configure({ capacity: 1, intervalMs: WINDOW_MS });
    expect(await rig.takeAll('polling')).toBe(1);
  });

  it('writes nothing when it refuses', async () => {
    await rig.takeAll('webhook');
    const version = () => rig.database.query('SELECT xmin::text, ctid::text FROM rate_budget');
    const before = await version();
    for (const reason of ['webhook', 'manual', 'polling'] as const) await rig.budget.take(reason);
    expect(await version()).toEqual(before);
  });

  it('is shared by everyone who takes at the same time', async () => {
    const taken = await Promise.all(Array.from({ length: 150 }, () => rig.budget.take('webhook')));
    expect(taken.filter((opensAt) => opensAt === undefined)).toHaveLength(100);
  });
});

describe('the window rollover', () => {
  it('charges a call just before it to both windows', async () => {
    await rig.goTo(WINDOW_MS - GUARD_MS - LAG_MS);
    expect(await rig.takeAll('webhook', 30)).toBe(30);
    await rig.goTo(WINDOW_MS + GUARD_MS);
    expect(await rig.takeAll('webhook')).toBe(70);
  });

  it('charges a call just after it to both windows', async () => {
    expect(await rig.takeAll('webhook', 95)).toBe(95);
    await rig.goTo(WINDOW_MS + GUARD_MS - 1);
    expect(await rig.takeAll('polling')).toBe(0);
    expect(await rig.takeAll('webhook')).toBe(5);
    expect(await rig.budget.take('webhook')).toEqual(at(WINDOW_MS + GUARD_MS));
  });

  it('never lets more than capacity into a window of a provider whose clock is 2 s off', async () => {
    const random = seededRandom(7);
    const grants: number[] = [];
    // Bursts around the rollovers, where clocks matter, and some in between.
    for (let turn = 1; turn <= 4; turn += 1) {
      const offsets = [-300_000, -4000, -3100, -2900, -2000, -1000, -1, 0, 500, 1999, 2000, 2600, 5000, 200_000];
      for (const offset of offsets) {
        const ms = turn * WINDOW_MS + offset;
        await rig.goTo(ms);
        const granted = await rig.takeAll(random() < 0.3 ? 'manual' : 'webhook', Math.ceil(random() * 60));
        grants.push(...Array.from({ length: granted }, () => ms));
      }
    }
    expect(grants.length).toBeGreaterThan(350);
    for (const clockOffsetMs of [-2000, -1000, 0, 1000, 2000]) {
      for (const lag of [() => 0, () => LAG_MS - 1, () => random() * LAG_MS]) {
        const windows = new Map<number, number>();
        for (const grant of grants) {
          const window = Math.floor((grant + lag() + clockOffsetMs) / WINDOW_MS);
          windows.set(window, (windows.get(window) ?? 0) + 1);
        }
        expect(Math.max(...windows.values())).toBeLessThanOrEqual(100);
      }
    }
  });
});

/** Park and Miller's generator: the same numbers in every run. */
function seededRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 48_271) % 2_147_483_647;
    return state / 2_147_483_647;
  };
}

describe('a database clock that was a year ahead for a while', () => {
  const AHEAD_MS = 365 * 96 * WINDOW_MS;
  const DAILY = { limit: 100, used: 0, dailyLimit: 30_000, dailyUsed: 30_000 };

  it.each<[string, () => Promise<unknown>]>([
    ['spent', () => rig.takeAll('webhook')],
    ['half spent', () => rig.takeAll('webhook', 50)],
    ['a 429 closed', () => rig.budget.take('webhook').then(() => rig.budget.block(undefined, 'HTTP 429'))],
    ['whose day was spent', () => rig.budget.take('webhook').then(() => rig.budget.correct(DAILY, 10))],
  ])('leaves no window from that time behind, %s, that would be closed for a year', async (_case, spend) => {
    await rig.goTo(AHEAD_MS);
    await spend();
    await rig.goTo(WINDOW_MS / 2);
    expect((await rig.budget.read()).windowStart).toEqual(at(0));
    const capacity = (await rig.budget.read()).capacity;
    expect(await rig.takeAll('manual', 1)).toBe(1);
    expect(await rig.takeAll('webhook')).toBe(capacity - 1);
    await rig.goTo(WINDOW_MS + MINUTE_MS);
    expect(await rig.takeAll('webhook', 10)).toBe(10);
  });

  it('forgets nothing of a window when it was ahead by less', async () => {
    await rig.goTo(WINDOW_MS + GUARD_MS);
    expect(await rig.takeAll('webhook', 60)).toBe(60);
    await rig.goTo(WINDOW_MS - MINUTE_MS);
    expect(await rig.takeAll('webhook')).toBe(40);
    await rig.goTo(WINDOW_MS + MINUTE_MS);
    expect(await rig.takeAll('webhook')).toBe(0);
  });
});
