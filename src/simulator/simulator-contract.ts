import type { CallRecord } from './call-log.ts';
import type { EntityId } from './entity-id.ts';
import type { Fault, FaultHandle } from './faults.ts';
import type { Settings } from './options.ts';
import type { Usage } from './rate-windows.ts';
import type { Subscription } from './subscription-registry.ts';
import type { TokenPair } from './token-registry.ts';
import type { DeliveryAttempt, DeliveryOptions, DeliveryResult, WebhookEvent } from './webhook-sender.ts';
import type { ActivityFields, Athlete, NewActivity } from './world.ts';

/** A running provider and the handles to steer it. */
export interface Simulator {
  /** Origin, as "http://127.0.0.1:4000". */
  readonly url: string;
  readonly origin: string;
  /** Live settings: what is changed here holds from the next call on. */
  readonly settings: Settings;
  close(): Promise<void>;

  readonly athletes: readonly Athlete[];
  addAthlete(fields?: { id?: EntityId; name?: string }): Athlete;
  /** Tokens without the way through the browser; `seconds` is the access token's lifetime. */
  grantTokens(athleteId: EntityId, scope?: string, seconds?: number): TokenPair;
  /** Ends the athlete's access tokens; refreshing still works. */
  invalidateAccessToken(athleteId: EntityId): void;
  /** Ends all the athlete's tokens without telling anybody. */
  revoke(athleteId: EntityId): void;
  /** Makes the access tokens alive now end in that many seconds, without telling their holders. */
  expireTokensIn(seconds: number): void;

  /** Adds an activity silently. Its start defaults to one that ends now. */
  addActivity(athleteId: EntityId, fields?: NewActivity): { id: string };
  /** Adds that many activities, one every `everyMs` back from now (default 12 hours); newest id last. */
  addHistory(athleteId: EntityId, count: number, fields?: ActivityFields, everyMs?: number): { id: string }[];
  updateActivity(id: EntityId, patch: ActivityFields): void;
  deleteActivity(id: EntityId): void;

  /** Posts an event to the subscriber, or to an explicit address, with redelivery. */
  deliver(event: WebhookEvent, options?: DeliveryOptions): Promise<DeliveryResult>;
  createActivityAndNotify(
    athleteId: EntityId,
    fields?: NewActivity,
    event?: WebhookEvent,
  ): Promise<DeliveryResult & { id: string }>;
  updateActivityAndNotify(id: EntityId, patch: ActivityFields, event?: WebhookEvent): Promise<DeliveryResult>;
  deleteActivityAndNotify(id: EntityId, event?: WebhookEvent): Promise<DeliveryResult>;
  deauthorizeAndNotify(athleteId: EntityId, event?: WebhookEvent): Promise<DeliveryResult>;

  readonly subscriptions: readonly Subscription[];
  /** Subscribes a callback without a handshake. */
  subscribe(callbackUrl: string): Subscription;

  readonly faults: { add(fault: Fault): FaultHandle; clear(): void };

  /** Every call, in order of arrival. */
  readonly calls: readonly CallRecord[];
  clearCalls(): void;
  /** The first finished call that fits, past or future. */
  waitForCall(fits: (call: CallRecord) => boolean, timeoutMs?: number): Promise<CallRecord>;
  /** The first call that fits as soon as it has arrived, answered or not. */
  waitForArrival(fits: (call: CallRecord) => boolean, timeoutMs?: number): Promise<CallRecord>;

  usage(): Usage;
  /** Uses up budget as another holder of the same credentials would. */
  spendElsewhere(calls: number): void;

  on(signal: 'call' | 'arrival', listener: (call: CallRecord) => void): void;
  on(signal: 'delivery', listener: (attempt: DeliveryAttempt) => void): void;
  off(signal: 'call' | 'arrival', listener: (call: CallRecord) => void): void;
  off(signal: 'delivery', listener: (attempt: DeliveryAttempt) => void): void;
}
