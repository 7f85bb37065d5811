/**
 * Reads something for everyone who asks within a short time: an answer is handed out until it is `maxAgeMs`
 * old, and whoever asks while it is being read waits for that reading. A reading that failed is not kept.
 * @param now milliseconds; the clock by which an answer grows old
 */
export function createKeptRead<T>(read: () => Promise<T>, maxAgeMs: number, now: () => number): () => Promise<T> {
  let kept: { answer: Promise<T>; at: number } | undefined;
  return () => {
    // A clock that was set back makes nothing fresh for as long as it lags.
    if (kept && Math.abs(now() - kept.at) < maxAgeMs) return kept.answer;
    const reading = { answer: read(), at: now() };
    kept = reading;
    reading.answer.catch(() => {
      if (kept === reading) kept = undefined;
    });
    return reading.answer;
  };
}
