/** How a simulated provider is set up; every field is optional and can be changed while it runs (see {@link Settings}). */
export interface SimulatorOptions {
  /** TCP port; 0 takes a free one. */
  port?: number;
  /** Address to listen on. */
  host?: string;
  clientId?: string;
  clientSecret?: string;
  /** Calls per short window, over all athletes. */
  shortLimit?: number;
  /** Calls per day (UTC). */
  dailyLimit?: number;
  /** Limit of reading calls per short window; the same as `shortLimit` unless given. */
  readShortLimit?: number;
  /** Limit of reading calls per day; the same as `dailyLimit` unless given. */
  readDailyLimit?: number;
  /** Length of the short window; windows start at multiples of it since the epoch. */
  intervalMs?: number;
  /** Delay before every answer of the API and of OAuth. */
  latencyMs?: number;
  /** How far the provider's clock is ahead of ours (negative: behind). */
  clockOffsetMs?: number;
  /** Source of time in epoch milliseconds, before `clockOffsetMs` is added. */
  now?: () => number;
  /** Same seed, same world. */
  seed?: number;
  /** When set, webhooks carry an `X-Strava-Signature` made with it. */
  signingSecret?: string;
  /** What a 429 of the rate windows says about the wait; the real provider says nothing. */
  retryAfter?: RetryAfterForm;
  /** Whether answers carry the X-RateLimit and X-ReadRateLimit headers. */
  sendRateHeaders?: boolean;
  redelivery?: Partial<Redelivery>;
  /** Athlete who consents to every authorisation request at once, without a page. */
  autoApprove?: string | number | bigint;
  /** Lifetime of the access tokens issued from now on. */
  accessTokenSeconds?: number;
  /** Fills activity details with segment efforts up to about this many bytes. */
  detailBytes?: number;
  /** How many calls the log keeps; the oldest go first. */
  callLogLimit?: number;
}

export type RetryAfterForm = 'none' | 'seconds' | 'date';

/** How webhook events are repeated when the callback does not answer 200 in time. */
export interface Redelivery {
  /** Deliveries in all, the first one included. */
  attempts: number;
  delayMs: number;
  ackTimeoutMs: number;
}

/** Options with every default filled in. Read live: a changed value holds from the next call on. */
export interface Settings {
  port: number;
  host: string;
  clientId: string;
  clientSecret: string;
  shortLimit: number;
  dailyLimit: number;
  readShortLimit: number | undefined;
  readDailyLimit: number | undefined;
  intervalMs: number;
  latencyMs: number;
  clockOffsetMs: number;
  now: () => number;
  seed: number;
  signingSecret: string | undefined;
  retryAfter: RetryAfterForm;
  sendRateHeaders: boolean;
  redelivery: Redelivery;
  autoApprove: string | undefined;
  accessTokenSeconds: number;
  detailBytes: number;
  callLogLimit: number;
}

/** Fills in the defaults: the real provider's limits and delivery rules, a free port on the loopback address. */
export function resolveSettings(options: SimulatorOptions): Settings {
  return {
    port: options.port ?? 0,
    host: options.host ?? '127.0.0.1',
    clientId: options.clientId ?? 'simulator-client',
    clientSecret: options.clientSecret ?? 'simulator-secret',
    shortLimit: options.shortLimit ?? 600,
    dailyLimit: options.dailyLimit ?? 30_000,
    readShortLimit: options.readShortLimit,
    readDailyLimit: options.readDailyLimit,
    intervalMs: options.intervalMs ?? 900_000,
    latencyMs: options.latencyMs ?? 0,
    clockOffsetMs: options.clockOffsetMs ?? 0,
    now: options.now ?? Date.now,
    seed: options.seed ?? 1,
    signingSecret: options.signingSecret,
    retryAfter: options.retryAfter ?? 'none',
    sendRateHeaders: options.sendRateHeaders ?? true,
    redelivery: { attempts: 3, delayMs: 60_000, ackTimeoutMs: 2_000, ...options.redelivery },
    autoApprove: options.autoApprove === undefined ? undefined : String(options.autoApprove),
    accessTokenSeconds: options.accessTokenSeconds ?? 21_600,
    detailBytes: options.detailBytes ?? 0,
    callLogLimit: options.callLogLimit ?? 500_000,
  };
}

/** The provider's own time in epoch milliseconds. */
export function providerTime(settings: Settings): number {
  return settings.now() + settings.clockOffsetMs;
}
