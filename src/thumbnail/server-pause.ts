/** Leaves a server alone for a while that no longer answers, so that not everything waits for it in vain. */
export interface ServerPause {
  /** Whether the server is left alone now. */
  isOn(): boolean;
  /** A request ended. @param timedOut whether it got no answer in time; any other end shows that the server answers */
  note(timedOut: boolean): void;
}

/**
 * @param afterTimeouts so many in a row begin a pause
 * @param pauseMs how long it lasts; the first request after it that times out begins another
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
