import { describe, expect, it } from '@jest/globals';
import { type Forecast, forecastEnd } from '../../src/domain/sync-forecast.ts';

const NOW = Date.parse('2025-05-06T12:00:00Z');
const MINUTE = 60_000;

/** Minutes from now to the expected end; a fresh window of 540 bulk calls begins now. */
const forecast = (changes: Partial<Forecast>) =>
  (forecastEnd({
    now: NOW,
    opensAt: undefined,
    windowStart: NOW,
    windowMs: 15 * MINUTE,
    callsPerWindow: 540,
    callsUsed: 0,
    daily: undefined,
    calls: 0,
    callsOfBusiestAthlete: 0,
    cooldownMs: 15_000,
    ...changes,
  }) -
    NOW) /
  MINUTE;

describe('the expected end of a sync', () => {
  it('follows the pace of the budget where many athletes share the work', () => {
    expect(forecast({ calls: 540 })).toBeCloseTo(14.22, 1); // spread over 95% of the window
    expect(forecast({ calls: 5400, callsOfBusiestAthlete: 54 })).toBeCloseTo(9 * 15 + 14.22, 1);
  });

  it('comes soon in a window with little spent, and later in one with much spent', () => {
    const windowStart = NOW - 10 * MINUTE;
    expect(forecast({ windowStart, calls: 40 })).toBe(0);
    expect(forecast({ windowStart, calls: 40, callsUsed: 540 })).toBeCloseTo(6.03, 1);
  });

  it('follows the cooldown where one athlete has it all', () => {
    expect(forecast({ calls: 400, callsOfBusiestAthlete: 400 })).toBe(100);
  });

  it('begins when the budget opens', () => {
    expect(forecast({ calls: 540, opensAt: NOW + 15 * MINUTE, callsUsed: 540 })).toBeCloseTo(15 + 14.22, 1);
    expect(forecast({ calls: 1, opensAt: NOW + 20 * MINUTE })).toBe(20);
  });

  it('moves past midnight UTC when the day’s calls do not suffice', () => {
    expect(forecast({ calls: 1540, daily: { left: 1000, limit: 30_000 } })).toBe(12 * 60 + 15);
    expect(forecast({ calls: 31_540, daily: { left: 1000, limit: 30_000 } })).toBe(36 * 60 + 15);
  });

  it('is now when nothing is left', () => {
    expect(forecast({})).toBe(0);
  });
});
