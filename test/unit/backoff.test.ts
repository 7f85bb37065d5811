import { describe, expect, it } from '@jest/globals';
import { backoffMs } from '../../src/domain/backoff.ts';

const DEFAULTS = { baseMs: 30_000, capMs: 3_600_000 };

describe('the wait before a retry', () => {
  it('is 30 s, 60 s, 2 m, 4 m and 8 m by default', () => {
    expect([0, 1, 2, 3, 4].map((retries) => backoffMs(retries, DEFAULTS, 0))).toEqual([
      30_000, 60_000, 120_000, 240_000, 480_000,
    ]);
  });

  it('is at most 5% longer', () => {
    expect(backoffMs(0, DEFAULTS, 1)).toBe(31_500);
    expect(backoffMs(0, DEFAULTS, 0.5)).toBe(30_750);
  });

  it('is never over the cap, however many retries there were', () => {
    expect(backoffMs(7, DEFAULTS, 1)).toBe(3_600_000);
    expect(backoffMs(1000, DEFAULTS, 1)).toBe(3_600_000);
    expect(backoffMs(1, { baseMs: 1000, capMs: 1500 }, 0)).toBe(1500);
  });

  it('is none with a base of 0', () => {
    expect(backoffMs(3, { baseMs: 0, capMs: 1000 }, 1)).toBe(0);
  });
});
