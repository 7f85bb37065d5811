/**
 * Wait before the next retry: base, doubling with each retry, never over the cap.
 * With the defaults: 30 s, 60 s, 2 m, 4 m, 8 m.
 * @param retriesSoFar retries that were scheduled before this one, 0 for the first failure
 * @param random 0 to 1; adds up to 5% so that jobs that failed together do not return together
 * @returns milliseconds
 */
export function backoffMs(retriesSoFar: number, options: { baseMs: number; capMs: number }, random: number): number {
  const exact = Math.min(options.capMs, options.baseMs * 2 ** retriesSoFar);
  return Math.round(Math.min(options.capMs, exact * (1 + 0.05 * random)));
}
