import { setTimeout as delay } from 'node:timers/promises';

/** How a simulated provider is set up. Read live: a changed value applies from the next call on. */
export interface Settings {
  /** TCP port; 0 picks a free one. */
  port: number;
  /** Address to listen on. */
  host: string;
  clientId: string;
  clientSecret: string;
  /** Calls per short window, over all athletes. */
  shortLimit: number;
  /** Calls per day (UTC). */
  dailyLimit: number;
  /** Limit of reading calls per short window; defaults to `shortLimit`. */
  readShortLimit: number | undefined;
  /** Limit of reading calls per day; defaults to `dailyLimit`. */
  readDailyLimit: number | undefined;
  /** Length of the short window; windows start at multiples of it since the epoch. */
  intervalMs: number;
  /** Delay before every answer of the API and of OAuth. */
  latencyMs: number;
  /** How far the provider's clock is ahead of ours (negative: behind). */
  clockOffsetMs: number;
  /** Source of time in epoch milliseconds, before `clockOffsetMs` is added. */
  now: () => number;
  /** Same seed, same world. */
  seed: number;
  /** When set, webhooks carry an `X-Strava-Signature` made with it. */
  signingSecret: string | undefined;
  redelivery: Redelivery;
  /** Lifetime of the access tokens issued from now on. */
  accessTokenSeconds: number;
}

/** How webhook events are repeated when the callback does not answer 200 in time. */
export interface Redelivery {
  /** Deliveries in all, the first one included. */
  attempts: number;
  delayMs: number;
  ackTimeoutMs: number;
}

export type SimulatorOptions = Partial<Omit<Settings, 'redelivery'>> & { redelivery?: Partial<Redelivery> };

/** Fills in the defaults: the real provider's limits and delivery rules, a free port on the loopback address. */
export function resolveSettings(options: SimulatorOptions): Settings {
  return {
    port: 0,
    host: '127.0.0.1',
    clientId: 'simulator-client',
    clientSecret: 'simulator-secret',
    shortLimit: 600,
    dailyLimit: 30_000,
    readShortLimit: undefined,
    readDailyLimit: undefined,
    intervalMs: 900_000,
    latencyMs: 0,
    clockOffsetMs: 0,
    now: Date.now,
    seed: 1,
    signingSecret: undefined,
    accessTokenSeconds: 21_600,
    ...options,
    redelivery: { attempts: 3, delayMs: 60_000, ackTimeoutMs: 2_000, ...options.redelivery },
  };
}

/** The provider's own time in epoch milliseconds. */
export function providerTime(settings: Settings): number {
  return settings.now() + settings.clockOffsetMs;
}

/** Resolves after that time, or at once when the simulator closes. */
export async function pause(ms: number, closing: AbortSignal): Promise<void> {
  if (ms <= 0 || closing.aborted) return;
  await delay(ms, undefined, { signal: closing }).catch((error: Error) => {
    if (error.name !== 'AbortError') throw error;
  });
}
