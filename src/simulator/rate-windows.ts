import type { Settings } from './settings.ts';

const dayMs = 86_400_000;

export interface Usage {
  /** Calls let in during this short window. */
  short: number;
  /** Calls of this UTC day, refused ones included. */
  daily: number;
  /** Calls refused during this short window. */
  rejected: number;
  windowStart: number;
}

/**
 * The provider's rate limits: a short window aligned to multiples of its length, and the UTC day, each for all
 * calls and for reading ones. A call over the short limit is refused and still counts against the day.
 */
export class RateWindows {
  readonly #settings: Settings;
  #windowStart = -1;
  #dayStart = -1;
  #short = 0;
  #readShort = 0;
  #daily = 0;
  #readDaily = 0;
  #rejected = 0;

  constructor(settings: Settings) {
    this.#settings = settings;
  }

  /** Counts one call at that time. @returns whether it is let in */
  count(nowMs: number, reading: boolean): boolean {
    this.#turn(nowMs);
    const { shortLimit, dailyLimit } = this.#settings;
    const readShortLimit = this.#settings.readShortLimit ?? shortLimit;
    const readDailyLimit = this.#settings.readDailyLimit ?? dailyLimit;
    const dayOver = this.#daily >= dailyLimit || (reading && this.#readDaily >= readDailyLimit);
    const shortOver = this.#short >= shortLimit || (reading && this.#readShort >= readShortLimit);
    this.#daily++;
    if (reading) this.#readDaily++;
    if (dayOver || shortOver) {
      this.#rejected++;
    } else {
      this.#short++;
      if (reading) this.#readShort++;
    }
    return !dayOver && !shortOver;
  }

  /** The four headers, each "short window,day". */
  headers(): Record<string, string> {
    const { shortLimit, dailyLimit } = this.#settings;
    const readShortLimit = this.#settings.readShortLimit ?? shortLimit;
    const readDailyLimit = this.#settings.readDailyLimit ?? dailyLimit;
    return {
      'X-RateLimit-Limit': `${shortLimit},${dailyLimit}`,
      'X-RateLimit-Usage': `${this.#short},${this.#daily}`,
      'X-ReadRateLimit-Limit': `${readShortLimit},${readDailyLimit}`,
      'X-ReadRateLimit-Usage': `${this.#readShort},${this.#readDaily}`,
    };
  }

  usage(nowMs: number): Usage {
    this.#turn(nowMs);
    return { short: this.#short, daily: this.#daily, rejected: this.#rejected, windowStart: this.#windowStart };
  }

  windowStartAt(nowMs: number): number {
    return Math.floor(nowMs / this.#settings.intervalMs) * this.#settings.intervalMs;
  }

  #turn(nowMs: number): void {
    const windowStart = this.windowStartAt(nowMs);
    if (windowStart !== this.#windowStart) {
      this.#windowStart = windowStart;
      this.#short = 0;
      this.#readShort = 0;
      this.#rejected = 0;
    }
    const dayStart = Math.floor(nowMs / dayMs) * dayMs;
    if (dayStart !== this.#dayStart) {
      this.#dayStart = dayStart;
      this.#daily = 0;
      this.#readDaily = 0;
    }
  }
}
