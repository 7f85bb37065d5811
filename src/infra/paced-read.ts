/** Reads something that may be dear, and hands the answer to everyone who asks about the same time. */
export type PacedRead<T> = () => Promise<T>;

const CHEAP_MS = 50;
const SHARE = 20;
const MAX_AGE_MS = 10_000;

/**
 * Paces a read by what it costs. One that takes under 50 ms is made anew each time; a dearer one at most
 * a twentieth of the time, and meanwhile the last answer is given, which is then never older than ten
 * seconds plus one read. Reads never run at once.
 */
export function createPacedRead<T>(read: () => Promise<T>): PacedRead<T> {
  let last: { answer: T; endedAt: number; tookMs: number } | undefined;
  let running: Promise<T> | undefined;

  const readAnew = (): Promise<T> => {
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
    if (last && last.tookMs >= CHEAP_MS) {
      const ageMs = performance.now() - last.endedAt;
      if (ageMs < Math.min(MAX_AGE_MS, last.tookMs * SHARE)) return last.answer;
    }
    // What is under way may have begun before the caller's own change: it is waited for, then read again.
    if (running && (!last || last.tookMs < CHEAP_MS)) await running;
    return running ?? readAnew();
  };
}
