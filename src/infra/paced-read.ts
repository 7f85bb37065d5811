/** A read that may be expensive and is shared by concurrent callers. */
export type PacedRead<T> = () => Promise<T>;

const CHEAP_MS = 50;
const SHARE = 20;
const MAX_AGE_MS = 10_000;

/**
 * Paces a read by its cost. A read under 50 ms runs for every call; a more expensive one takes at most a
 * twentieth of the time, and in between callers get the last answer, which is never older than ten seconds
 * plus one read. Only one read runs at a time, and a failed one is not kept.
 * @param keepMs how long an answer is kept at least, however cheap
 */
export function createPacedRead<T>(read: () => Promise<T>, keepMs = 0): PacedRead<T> {
  let last: { answer: T; endedAt: number; tookMs: number } | undefined;
  let running: Promise<T> | undefined;

  const startRead = (): Promise<T> => {
    const startedAt = performance.now();
    running = read()
      .then((answer) => {
        const endedAt = performance.now();
        last = { answer, endedAt, tookMs: endedAt - startedAt };
        return answer;
      })
      .finally(() => {
        running = undefined;
      });
    return running;
  };

  return async () => {
    if (last) {
      const pacedMs = last.tookMs < CHEAP_MS ? 0 : Math.min(MAX_AGE_MS, last.tookMs * SHARE);
      if (performance.now() - last.endedAt < Math.max(keepMs, pacedMs)) return last.answer;
    }
    // The running read may have started before the caller's own change: wait for it, then read again.
    if (running && keepMs === 0 && (!last || last.tookMs < CHEAP_MS)) await running;
    return running ?? startRead();
  };
}
