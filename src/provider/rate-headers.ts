/** The provider's count of calls, as its headers give it. */
export interface RateUsage {
  limit: number;
  used: number;
  dailyLimit: number;
  dailyUsed: number;
}

/**
 * Reads X-RateLimit-Limit/Usage and X-ReadRateLimit-Limit/Usage, each "window,day". Where both are
 * given, the tighter one counts: of each pair, the one with less left.
 * @returns undefined when there is no readable pair
 */
export function readRateHeaders(headers: Record<string, string | string[] | undefined>): RateUsage | undefined {
  const pairs = [
    pairOf(headers['x-ratelimit-limit'], headers['x-ratelimit-usage']),
    pairOf(headers['x-readratelimit-limit'], headers['x-readratelimit-usage']),
  ].filter((pair) => pair !== undefined);
  if (pairs.length === 0) return undefined;
  const window = tightest(pairs.map((pair) => pair.window));
  const day = tightest(pairs.map((pair) => pair.day));
  return { limit: window.limit, used: window.used, dailyLimit: day.limit, dailyUsed: day.used };
}

interface Count {
  limit: number;
  used: number;
}

function pairOf(
  limit: string | string[] | undefined,
  usage: string | string[] | undefined,
): { window: Count; day: Count } | undefined {
  const [windowLimit, dayLimit] = numbersOf(limit);
  const [windowUsed, dayUsed] = numbersOf(usage);
  if (windowLimit === undefined || dayLimit === undefined || windowUsed === undefined || dayUsed === undefined)
    return undefined;
  // After a limit of 0 no call would ever be made that could report a new limit.
  if (windowLimit === 0 || dayLimit === 0) return undefined;
  return { window: { limit: windowLimit, used: windowUsed }, day: { limit: dayLimit, used: dayUsed } };
}

function numbersOf(header: string | string[] | undefined): number[] {
  const text = Array.isArray(header) ? header[0] : header;
  return text !== undefined && /^\s*\d{1,9}\s*,\s*\d{1,9}\s*$/.test(text) ? text.split(',').map(Number) : [];
}

function tightest(counts: Count[]): Count {
  return counts.reduce((a, b) => (b.limit - b.used < a.limit - a.used ? b : a));
}
