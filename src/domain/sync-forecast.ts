/** What a forecast is made from. Times are milliseconds since the epoch. */
export interface Forecast {
  now: number;
  /** When the budget next opens for such calls; undefined: now. */
  opensAt: number | undefined;
  windowStart: number;
  windowMs: number;
  /** Calls that a window leaves to bulk work, and how many of them this window has spent. */
  callsPerWindow: number;
  callsUsed: number;
  /** Calls of this UTC day that are left, and of a whole day; undefined when the provider never said. */
  daily: { left: number; limit: number } | undefined;
  /** Calls still to make. */
  calls: number;
  /** Those of the athlete with the most. */
  callsOfBusiestAthlete: number;
  /** Wait between two calls for one athlete. */
  cooldownMs: number;
}

const DAY_MS = 86_400_000;
// Bulk calls are spread over this share of a window.
const SPREAD = 0.95;

/**
 * When a sync is expected to end: by the budget's pace, the daily limit, or one athlete's cooldowns,
 * whichever takes longest. Other work on the same budget makes it later.
 * @returns milliseconds since the epoch
 */
export function forecastEnd(forecast: Forecast): number {
  const start = Math.max(forecast.now, forecast.opensAt ?? 0);
  if (forecast.calls === 0) return Math.round(forecast.now);
  const byCooldown = start + forecast.callsOfBusiestAthlete * forecast.cooldownMs;
  return Math.round(Math.max(start, byCooldown, endByPace(forecast, start), endByDays(forecast)));
}

function endByPace(forecast: Forecast, start: number): number {
  const { windowMs } = forecast;
  const perWindow = Math.max(1, forecast.callsPerWindow);
  const later = Math.max(0, Math.floor((start - forecast.windowStart) / windowMs));
  const used = later === 0 ? forecast.callsUsed : 0;
  const last = used + forecast.calls - 1;
  const windows = later + Math.floor(last / perWindow);
  return forecast.windowStart + windows * windowMs + SPREAD * windowMs * ((last % perWindow) / perWindow);
}

function endByDays({ now, calls, daily, windowMs, callsPerWindow }: Forecast): number {
  if (!daily || calls <= daily.left || daily.limit <= 0) return now;
  const later = calls - daily.left;
  const wholeDays = Math.ceil(later / daily.limit) - 1;
  const midnight = (Math.floor(now / DAY_MS) + 1) * DAY_MS;
  const ofLastDay = later - wholeDays * daily.limit;
  return midnight + wholeDays * DAY_MS + (ofLastDay * windowMs) / Math.max(1, callsPerWindow);
}
