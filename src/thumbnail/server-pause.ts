/** Pauses requests to a server that no longer answers, so that callers do not wait for it in vain. */
export interface ServerPause {
  /** Whether requests are paused now. */
  isOn(): boolean;
  /** A request ended. @param timedOut whether it got no answer in time; any other end shows that the server answers */
  note(timedOut: boolean): void;
}

/**
 * @param afterTimeouts this many in a row start a pause
 * @param pauseMs how long it lasts; the first timeout after it starts another
 */
export function createServerPause(afterTimeouts: number, pauseMs: number): ServerPause {
  let inARow = 0;
  let endsAt = Number.NEGATIVE_INFINITY;
  return {
    isOn: () => performance.now() < endsAt,
    note: (timedOut) => {
      inARow = timedOut ? inARow + 1 : 0;
      if (inARow >= afterTimeouts) endsAt = performance.now() + pauseMs;
    },
  };
}
