import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { checkSeed, type Tally } from '../history/check-history.ts';
import { createWorld, type World } from '../history/world.ts';

const PATIENCE_MS = 300_000;

let world: World;
beforeAll(async () => {
  world = await createWorld();
});
afterAll(() => world.close());

/** The reports of the seeds from 1 to `count` that fail. */
async function reportsOf(count: number, together: boolean, tally: Tally = {}): Promise<string[]> {
  const reports: string[] = [];
  for (let seed = 1; seed <= count; seed += 1) {
    const failure = await checkSeed(world, seed, { together, tally });
    if (failure) reports.push(failure.report);
  }
  return reports;
}

describe('a history of requests, runs, crashes and time', () => {
  it(
    'grants each call, has each effect once, overspends no window, breaks no cooldown and loses no request',
    async () => {
      const tally: Tally = {};
      expect(await reportsOf(100, false, tally)).toEqual([]);
      // The histories go where it is hard.
      expect(Object.keys(tally)).toEqual(
        expect.arrayContaining(['call', 'run lost', 'run retry', 'run put_back', 'run refuted', 'event stale']),
      );
      expect(Math.min(tally['rescued dead'] ?? 0, tally['rescued stale'] ?? 0)).toBeGreaterThan(0);
    },
    PATIENCE_MS,
  );

  it(
    'does so where two operations run at the same time',
    async () => {
      expect(await reportsOf(15, true)).toEqual([]);
    },
    PATIENCE_MS,
  );
});

describe('a queue that is broken on purpose', () => {
  it.each([
    ['a call that is not counted', 'spend_call', 'b.used := b.used + 1', 'b.used := b.used'],
    ['a cooldown that is not kept', 'next_lane', 'OR s.cooldown_until <= v_now', 'OR true'],
    ['a lane that is not looked at again', 'begin_run', 'CASE WHEN EXISTS', 'CASE WHEN NOT EXISTS'],
  ])(
    'is found out: %s',
    async (_what, name, text, replacement) => {
      const broken = await createWorld();
      try {
        await broken.sabotage(name, text, replacement);
        let failure: Awaited<ReturnType<typeof checkSeed>>;
        for (let seed = 1; seed <= 30 && !failure; seed += 1)
          failure = await checkSeed(broken, seed, { together: false, shrink: false });
        expect(failure?.report).toContain(`npm run history -- --seed ${failure?.seed}`);
      } finally {
        await broken.close();
      }
    },
    PATIENCE_MS,
  );
});
