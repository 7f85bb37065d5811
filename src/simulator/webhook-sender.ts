import { createHmac } from 'node:crypto';
import type { Signals } from './call-log.ts';
import type { EntityId } from './entity-id.ts';
import type { OutboundClient } from './outbound-client.ts';
import { pause, providerTime, type Settings } from './settings.ts';
import type { Subscriptions } from './subscriptions.ts';

/** An event in the provider's own words. What is left out gets the usual value. */
export interface WebhookEvent {
  object_type?: string;
  object_id?: EntityId;
  aspect_type?: string;
  owner_id?: EntityId;
  subscription_id?: EntityId;
  /** Epoch seconds of the provider's clock. */
  event_time?: number;
  updates?: Record<string, unknown>;
}

export interface DeliveryOptions {
  /** Where to, instead of the subscription's callback. */
  url?: string;
  /** Secret to sign with instead of the configured one; null leaves the signature out. */
  signingSecret?: string | null;
}

/** How a delivery ended. */
export interface DeliveryResult {
  /** Status of the last answer; 0 when there was none. */
  status: number;
  body: string;
  /** Time from the first attempt to the last answer, waits included. */
  ms: number;
  /** Attempts made; 0 without a subscription. */
  attempts: number;
  /** Why the last attempt had no answer. */
  error?: string;
}

/** One attempt, as the `delivery` signal reports it. */
export interface DeliveryAttempt {
  at: number;
  url: string;
  /** The exact body sent. */
  payload: string;
  attempt: number;
  status: number;
  ms: number;
  error?: string;
}

/** Posts events to the subscriber and repeats them until they are acknowledged with 200 in time. */
export class WebhookSender {
  readonly #settings: Settings;
  readonly #subscriptions: Subscriptions;
  readonly #client: OutboundClient;
  readonly #signals: Signals;
  readonly #closing: AbortSignal;

  constructor(
    settings: Settings,
    subscriptions: Subscriptions,
    client: OutboundClient,
    signals: Signals,
    closing: AbortSignal,
  ) {
    this.#settings = settings;
    this.#subscriptions = subscriptions;
    this.#client = client;
    this.#signals = signals;
    this.#closing = closing;
  }

  /** Delivers one event; resolves after the acknowledgement or the last attempt, and never rejects. */
  async deliver(event: WebhookEvent, options: DeliveryOptions = {}): Promise<DeliveryResult> {
    const subscription = this.#subscriptions.list()[0];
    const url = options.url ?? subscription?.callbackUrl;
    if (url === undefined) return { status: 0, body: '', ms: 0, attempts: 0, error: 'there is no subscription' };
    const nowSeconds = Math.floor(providerTime(this.#settings) / 1_000);
    const payload = eventJson(event, subscription?.id ?? 1, nowSeconds);
    const startedAt = performance.now();
    for (let attempt = 1; ; attempt++) {
      const { status, body, error } = await this.#attempt(url, payload, attempt, options);
      const { attempts, delayMs } = this.#settings.redelivery;
      const last = status === 200 || attempt >= attempts;
      if (!last) await pause(delayMs, this.#closing);
      if (!last && !this.#closing.aborted) continue;
      const result = { status, body, ms: performance.now() - startedAt, attempts: attempt };
      const reason = last ? error : 'the simulator was closed';
      return reason === undefined ? result : { ...result, error: reason };
    }
  }

  async #attempt(url: string, payload: string, attempt: number, options: DeliveryOptions) {
    const at = providerTime(this.#settings);
    const startedAt = performance.now();
    const headers: Record<string, string> = { 'Content-Type': 'application/json' };
    const secret = options.signingSecret === undefined ? this.#settings.signingSecret : options.signingSecret;
    if (secret) headers['X-Strava-Signature'] = signPayload(payload, secret, Math.floor(at / 1_000));
    const reply = await this.#client.send('POST', url, headers, payload, this.#settings.redelivery.ackTimeoutMs);
    const report: DeliveryAttempt = {
      at,
      url,
      payload,
      attempt,
      status: reply.status,
      ms: performance.now() - startedAt,
    };
    if (reply.error !== undefined) report.error = reply.error;
    this.#signals.emit('delivery', report);
    return reply;
  }
}

/** The signature header: HMAC-SHA256 over "<epoch seconds>.<body>". */
export function signPayload(payload: string, secret: string, epochSeconds: number): string {
  const digest = createHmac('sha256', secret).update(`${epochSeconds}.${payload}`).digest('hex');
  return `t=${epochSeconds},v1=${digest}`;
}

/** The body of an event, with ids as exact JSON numbers. */
function eventJson(event: WebhookEvent, subscriptionId: number, nowSeconds: number): string {
  return (
    `{"aspect_type":${JSON.stringify(event.aspect_type ?? 'create')}` +
    `,"event_time":${event.event_time ?? nowSeconds}` +
    `,"object_id":${event.object_id ?? 0}` +
    `,"object_type":${JSON.stringify(event.object_type ?? 'activity')}` +
    `,"owner_id":${event.owner_id ?? 0}` +
    `,"subscription_id":${event.subscription_id ?? subscriptionId}` +
    `,"updates":${JSON.stringify(event.updates ?? {})}}`
  );
}
