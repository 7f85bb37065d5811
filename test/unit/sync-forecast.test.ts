import { describe, expect, it } from '@jest/globals';
import { type Forecast, forecastEnd } from '../../src/domain/sync-forecast.ts';

const NOW = Date.parse('2025-05-06T12:00:00Z');
const MINUTE = 60_000;
const forecast = (changes: Partial<Forecast>) =>
  (forecastEnd({
    now: NOW,
    opensAt: undefined,
    callsPerWindow: 540,
    windowMs: 15 * MINUTE,
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
    expect(forecast({ calls: 5400, callsOfBusiestAthlete: 54 })).toBe(150);
  });

  it('follows the cooldown where one athlete has it all', () => {
    expect(forecast({ calls: 400, callsOfBusiestAthlete: 400 })).toBe(100);
  });

  it('begins when the budget opens', () => {
    expect(forecast({ calls: 540, opensAt: NOW + 10 * MINUTE })).toBe(25);
  });

  it('goes on after midnight UTC where the day’s calls do not suffice', () => {
    expect(forecast({ calls: 1540, daily: { left: 1000, limit: 30_000 } })).toBe(12 * 60 + 15);
    expect(forecast({ calls: 31_540, daily: { left: 1000, limit: 30_000 } })).toBe(36 * 60 + 15);
  });

  it('is now when nothing is left', () => {
    expect(forecast({})).toBe(0);
  });
});
