/** How many values a histogram counted up to an upper bound (not cumulative). */
export interface Bucket {
  upTo: number;
  count: number;
}

/**
 * Estimates a percentile from a histogram, as Prometheus does: the values of a bucket are taken to be
 * spread evenly over it; those beyond the last finite bound count as that bound.
 * @param share 0 to 1: 0.95 for the 95th percentile
 * @returns null when nothing was counted
 */
export function percentileOf(buckets: readonly Bucket[], share: number): number | null {
  const sorted = [...buckets].sort((a, b) => a.upTo - b.upTo);
  const total = sorted.reduce((sum, { count }) => sum + count, 0);
  if (total === 0) return null;
  let from = 0;
  let before = 0;
  for (const { upTo, count } of sorted) {
    if (count > 0 && before + count >= total * share) {
      return Number.isFinite(upTo) ? from + ((upTo - from) * (total * share - before)) / count : from;
    }
    before += count;
    from = upTo;
  }
  return from;
}
