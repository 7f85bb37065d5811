import { TestClock } from 'pg-boss';
import type { Logger } from '../../src/infra/logger.ts';
import { notify } from '../../src/infra/notify.ts';
import { type Rig, startRig } from './service.ts';

/** A rig with a frozen clock that only a test moves: in the service, in SQL and at the provider alike. */
export interface ClockedRig extends Rig {
  clock: TestClock;
  /** Lets time pass, and has the workers look for jobs at the end of it. @param ms milliseconds */
  advance(ms: number): Promise<void>;
  /** Milliseconds from now, by the rig's time; the database's times are finer by some microseconds. */
  msUntil(at: Date): number;
}

/** @param options.start of time; the middle of a rate window unless given */
export async function startClockedRig(
  env: Record<string, string> = {},
  { start = '2025-05-06T12:05:00Z', ...options }: { start?: Date | string; logger?: Logger } = {},
): Promise<ClockedRig> {
  const clock = new TestClock(start);
  const rig = await startRig({ ...options, env, clock, simulator: { now: () => clock.now() } });
  return {
    ...rig,
    clock,
    advance: async (ms) => {
      await clock.setTime(clock.now() + ms);
      await clock.tick(0); // every timer that fell due fires once
      // A poll may have run before the clock was set.
      for (const topic of ['fetch', 'polling', 'athlete'] as const) await notify(rig.service.database, topic);
    },
    msUntil: (at) => at.getTime() - clock.now(),
  };
}
