const QUIET_MS = 60_000;

/**
 * Reports a frequent event at most once a minute: the first one at once, later ones with the count since.
 * @param report gets the newest event
 */
export function createMinuteReport<T>(
  now: () => number,
  report: (newest: T, count: number) => void,
): (what: T) => void {
  let quietUntil = Number.NEGATIVE_INFINITY;
  let count = 0;
  return (what) => {
    count += 1;
    if (now() < quietUntil) return;
    report(what, count);
    quietUntil = now() + QUIET_MS;
    count = 0;
  };
}
