import { describe, expect, it } from '@jest/globals';
import { toEpochSeconds } from '../../src/domain/moment.ts';

describe('a time as people type it', () => {
  it.each([
    ['1746500000', 1_746_500_000],
    [1_746_500_000, 1_746_500_000],
    [0, 0],
    ['2024-02-29', Date.UTC(2024, 1, 29) / 1000],
    ['2025-05-06', Date.UTC(2025, 4, 6) / 1000],
    ['2025-05-06T12:05:00Z', Date.UTC(2025, 4, 6, 12, 5) / 1000],
    ['2025-05-06T12:05', Date.UTC(2025, 4, 6, 12, 5) / 1000],
    ['2025-05-06T12:05:00.999+02:00', Date.UTC(2025, 4, 6, 10, 5) / 1000],
  ])('%j is %j', (value, seconds) => {
    expect(toEpochSeconds(value)).toBe(seconds);
  });

  it.each([
    '',
    'yesterday',
    '12.5',
    12.5,
    -1,
    '1969-12-31',
    '3001-01-01',
    '2025-13-01',
    'May 6 2025',
    '2026-02-31',
    '2025-02-29',
    '2026-04-31T12:00:00+02:00',
  ])('%j is none', (value) => {
    expect(toEpochSeconds(value)).toBeUndefined();
  });
});
