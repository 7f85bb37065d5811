import { describe, expect, it } from '@jest/globals';
import { percentileOf } from '../../src/domain/percentile.ts';

describe('a percentile of a histogram', () => {
  it('is null when nothing was counted', () => {
    expect(percentileOf([], 0.5)).toBeNull();
    expect(percentileOf([{ upTo: 1, count: 0 }], 0.5)).toBeNull();
  });

  it('lies within its bucket, in proportion', () => {
    const buckets = [
      { upTo: 1, count: 50 },
      { upTo: 2, count: 40 },
      { upTo: 4, count: 10 },
    ];
    expect(percentileOf(buckets, 0.25)).toBe(0.5);
    expect(percentileOf(buckets, 0.5)).toBe(1);
    expect(percentileOf(buckets, 0.7)).toBe(1.5);
    expect(percentileOf(buckets, 0.95)).toBe(3);
    expect(percentileOf([...buckets].reverse(), 0.95)).toBe(3);
  });

  it('is the last finite bound for values beyond it', () => {
    expect(
      percentileOf(
        [
          { upTo: 5, count: 1 },
          { upTo: Number.POSITIVE_INFINITY, count: 9 },
        ],
        0.95,
      ),
    ).toBe(5);
  });
});
