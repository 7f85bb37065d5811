import { ApiRoutes } from './api-routes.ts';
import { CallLog, type CallRecord } from './call-log.ts';
import { type EntityId, toEntityId } from './entity-id.ts';
import { type Fault, type FaultHandle, FaultList } from './faults.ts';
import { startHttpServer } from './http-server.ts';
import { TileBook } from './map-tile.ts';
import { OauthRoutes } from './oauth-routes.ts';
import { providerTime, resolveSettings, type Settings, type SimulatorOptions } from './options.ts';
import { OutboundClient } from './outbound-client.ts';
import { Pauses } from './pauses.ts';
import { RateWindows, type Usage } from './rate-windows.ts';
import { type Subscription, SubscriptionRegistry } from './subscription-registry.ts';
import { SubscriptionRoutes } from './subscription-routes.ts';
import { type TokenPair, TokenRegistry } from './token-registry.ts';
import {
  type DeliveryAttempt,
  type DeliveryOptions,
  type DeliveryResult,
  type WebhookEvent,
  WebhookSender,
} from './webhook-sender.ts';
import { type ActivityFields, type Athlete, type NewActivity, World } from './world.ts';

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

const patienceMs = 10_000;
const halfDayMs = 43_200_000;
const defaultScope = 'read,activity:read_all';

/** Starts a provider on its own HTTP server. Rejects when the port is taken. */
export async function startSimulator(options: SimulatorOptions = {}): Promise<Simulator> {
  const settings = resolveSettings(options);
  const now = () => providerTime(settings);
  const pauses = new Pauses();
  const client = new OutboundClient();
  const world = new World(settings.seed, now);
  const tokens = new TokenRegistry(now);
  const windows = new RateWindows(settings);
  const faults = new FaultList(settings.seed);
  const log = new CallLog(() => settings.callLogLimit);
  const subscriptions = new SubscriptionRegistry(now);
  const sender = new WebhookSender(settings, subscriptions, client, pauses);
  const routes = {
    api: new ApiRoutes(settings, world),
    oauth: new OauthRoutes(settings, world, tokens, (athleteId) => void announceDeauthorization(sender, athleteId)),
    subscriptions: new SubscriptionRoutes(settings, subscriptions, client),
    tiles: new TileBook(settings.seed),
  };
  const server = await startHttpServer({ settings, tokens, windows, faults, log, pauses, routes });

  return {
    url: server.url,
    origin: server.url,
    settings,
    async close() {
      pauses.endAll();
      faults.clear();
      await server.close();
      client.close();
    },

    get athletes() {
      return world.athletes;
    },
    addAthlete: (fields) => world.addAthlete(fields),
    grantTokens(athleteId, scope = defaultScope, seconds = settings.accessTokenSeconds) {
      return tokens.issuePair({ athleteId: existingAthlete(world, athleteId).id, scope }, seconds);
    },
    invalidateAccessToken: (athleteId) => tokens.invalidateAccessTokens(toEntityId(athleteId)),
    revoke: (athleteId) => tokens.revoke(toEntityId(athleteId)),
    expireTokensIn: (seconds) => tokens.expireIn(seconds),

    addActivity: (athleteId, fields) => ({ id: world.addActivity(athleteId, fields).id }),
    addHistory(athleteId, count, fields = {}, everyMs = halfDayMs) {
      const newest = now() - everyMs;
      return Array.from({ length: count }, (_, index) => {
        const startDate = Math.floor((newest - (count - 1 - index) * everyMs) / 1_000) * 1_000;
        return { id: world.addActivity(athleteId, { startDate, ...fields }).id };
      });
    },
    updateActivity: (id, patch) => void world.updateActivity(id, patch),
    deleteActivity: (id) => void world.deleteActivity(id),

    deliver: (event, deliveryOptions) => sender.deliver(event, deliveryOptions),
    async createActivityAndNotify(athleteId, fields, event) {
      const activity = world.addActivity(athleteId, fields);
      const subject = { object_id: activity.id, owner_id: activity.athleteId };
      return { id: activity.id, ...(await sender.deliver({ aspect_type: 'create', ...subject, ...event })) };
    },
    async updateActivityAndNotify(id, patch, event) {
      const activity = world.updateActivity(id, patch);
      const subject = { object_id: activity.id, owner_id: activity.athleteId };
      return sender.deliver({ aspect_type: 'update', ...subject, updates: announcedChanges(patch), ...event });
    },
    async deleteActivityAndNotify(id, event) {
      const activity = world.deleteActivity(id);
      const subject = { object_id: activity.id, owner_id: activity.athleteId };
      return sender.deliver({ aspect_type: 'delete', ...subject, ...event });
    },
    async deauthorizeAndNotify(athleteId, event) {
      const athlete = existingAthlete(world, athleteId);
      tokens.revoke(athlete.id);
      return announceDeauthorization(sender, athlete.id, event);
    },

    get subscriptions() {
      return subscriptions.list();
    },
    subscribe: (callbackUrl) => subscriptions.add(callbackUrl),
    faults,

    calls: log.calls,
    clearCalls() {
      log.calls.length = 0;
    },
    waitForCall: (fits, timeoutMs = patienceMs) => log.waitForCall(fits, timeoutMs),
    waitForArrival: (fits, timeoutMs = patienceMs) => log.waitForArrival(fits, timeoutMs),
    usage: () => windows.usage(now()),
    spendElsewhere: (calls) => windows.spendElsewhere(now(), calls),

    on: (...[signal, listener]: SignalListener) =>
      signal === 'delivery' ? sender.on(listener) : log.on(signal, listener),
    off: (...[signal, listener]: SignalListener) =>
      signal === 'delivery' ? sender.off(listener) : log.off(signal, listener),
  };
}

type SignalListener =
  | [signal: 'delivery', listener: (attempt: DeliveryAttempt) => void]
  | [signal: 'call' | 'arrival', listener: (call: CallRecord) => void];

function existingAthlete(world: World, athleteId: EntityId): Athlete {
  const athlete = world.athlete(toEntityId(athleteId));
  if (athlete === undefined) throw new Error(`No athlete ${athleteId}; add one first`);
  return athlete;
}

function announceDeauthorization(
  sender: WebhookSender,
  athleteId: string,
  event?: WebhookEvent,
): Promise<DeliveryResult> {
  const subject = { object_type: 'athlete', object_id: athleteId, owner_id: athleteId };
  return sender.deliver({ ...subject, aspect_type: 'update', updates: { authorized: 'false' }, ...event });
}

/** The changes the provider tells of: title, type and privacy, and those alone. */
function announcedChanges(patch: ActivityFields): Record<string, string> {
  return {
    ...(patch.name === undefined ? {} : { title: patch.name }),
    ...(patch.sportType === undefined ? {} : { type: patch.sportType }),
    ...(patch.private === undefined ? {} : { private: String(patch.private) }),
  };
}
