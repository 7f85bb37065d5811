/** What a forecast is made from. */
export interface Forecast {
  /** Milliseconds since the epoch. */
  now: number;
  /** When the budget next opens for such calls; undefined: now. */
  opensAt: number | undefined;
  /** Calls that a window leaves to bulk work, and the window's length. */
  callsPerWindow: number;
  windowMs: number;
  /** Calls of this UTC day that are left, and of a whole day; undefined when the provider never said. */
  daily: { left: number; limit: number } | undefined;
  /** Calls still to make. */
  calls: number;
  /** Those of them that belong to the athlete who has most. */
  callsOfBusiestAthlete: number;
  /** Wait between two calls for one athlete. */
  cooldownMs: number;
}

const DAY_MS = 86_400_000;

/**
 * When a sync is expected to end: the budget's pace, the daily limit, or one athlete's cooldowns, whichever
 * takes longest. Other work on the same budget makes it later.
 * @returns milliseconds since the epoch
 */
export function forecastEnd(forecast: Forecast): number {
  const start = Math.max(forecast.now, forecast.opensAt ?? 0);
  const msPerCall = forecast.windowMs / Math.max(1, forecast.callsPerWindow);
  const byBudget = start + forecast.calls * msPerCall;
  const byCooldown = start + forecast.callsOfBusiestAthlete * forecast.cooldownMs;
  return Math.round(Math.max(byBudget, byCooldown, endByDays(forecast, msPerCall)));
}

function endByDays({ now, calls, daily }: Forecast, msPerCall: number): number {
  if (!daily || calls <= daily.left || daily.limit <= 0) return now;
  const later = calls - daily.left;
  const wholeDays = Math.ceil(later / daily.limit) - 1;
  const midnight = (Math.floor(now / DAY_MS) + 1) * DAY_MS;
  return midnight + wholeDays * DAY_MS + (later - wholeDays * daily.limit) * msPerCall;
}
