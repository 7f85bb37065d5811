import { afterEach, describe, expect, it } from '@jest/globals';
import { closestCalls, type Fleet, startFleet, watchWindows } from '../../bench/support/fleet.ts';
import { connectAthletes, requestAll } from '../../bench/support/seed-jobs.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';

const CAPACITY = 60;
const INTERVAL_MS = 3000;
const COOLDOWN_MS = 50; // 15 s of a window of 15 minutes
const WINDOWS = 2;
const TEST_MS = 60_000; // starting four processes takes the longest

/** The short form of bench/saturation.ts: real processes, a provider that counts strictly. */
describe('three replicas with more to fetch than the provider allows, one killed in each window', () => {
  let fleet: Fleet;
  let database: TestDatabase;

  afterEach(async () => {
    await fleet.stop();
    await database.drop();
  });

  it.each([
    ['polling', 0.9 * CAPACITY, 6],
    ['webhook', CAPACITY, -6],
  ] as const)(
    '%s uses what it may and never more, with a provider’s clock that is off',
    async (reason, available, offsetMs) => {
      database = await createTestDatabase();
      fleet = await startFleet({
        databaseUrl: database.url,
        replicas: 3,
        capacity: CAPACITY,
        intervalMs: INTERVAL_MS,
        providerClockOffsetMs: offsetMs,
      });
      const athletes = await fleet.simulator.addAthletes(Array.from({ length: 100 }, () => 6));
      await connectAthletes(fleet.database, athletes);
      await requestAll(fleet.database, athletes, reason);
      const { windows, calls } = await watchWindows(fleet, INTERVAL_MS, WINDOWS, () => fleet.killOne());
      for (const { calls: made, refused } of windows) {
        expect(refused).toBe(0);
        expect(made).toBeLessThanOrEqual(available);
        expect(made).toBeGreaterThan(0.8 * available); // a loaded machine may be late; the benchmark shows how near it comes
      }
      expect(closestCalls(calls)).toBeGreaterThanOrEqual(COOLDOWN_MS);
    },
    TEST_MS,
  );
});
