import { EventEmitter } from 'node:events';
import { Announcer } from './announcer.ts';
import { addApiRoutes } from './api-routes.ts';
import { CallLog, type CallRecord, type Signals } from './call-log.ts';
import { type EntityId, toEntityId } from './entity-id.ts';
import { FaultList } from './faults.ts';
import { startHttpServer } from './http-server.ts';
import { addTileRoute } from './map-tile.ts';
import { addOauthRoutes } from './oauth-routes.ts';
import { OutboundClient } from './outbound-client.ts';
import { addHomePage } from './pages.ts';
import { RateWindows } from './rate-windows.ts';
import { providerTime, resolveSettings, type SimulatorOptions } from './settings.ts';
import { addSubscriptionRoutes, Subscriptions } from './subscriptions.ts';
import { TokenRegistry } from './token-registry.ts';
import { type DeliveryOptions, type WebhookEvent, WebhookSender } from './webhook-sender.ts';
import { type ActivityFields, type Athlete, type NewActivity, World } from './world.ts';

const patienceMs = 10_000;
const halfDayMs = 43_200_000;
const defaultScope = 'read,activity:read_all';

/** A running provider and the handles to steer it. */
export type Simulator = Awaited<ReturnType<typeof startSimulator>>;

/** Starts a provider on its own HTTP server. Rejects when the port is taken. */
export async function startSimulator(options: SimulatorOptions = {}) {
  const settings = resolveSettings(options);
  const now = () => providerTime(settings);
  const closing = new AbortController();
  const signals: Signals = new EventEmitter();
  signals.setMaxListeners(0);
  const client = new OutboundClient();
  const world = new World(settings.seed, now);
  const tokens = new TokenRegistry(now);
  const windows = new RateWindows(settings);
  const faults = new FaultList();
  const log = new CallLog(signals);
  const subscriptions = new Subscriptions(now);
  const sender = new WebhookSender(settings, subscriptions, client, signals, closing.signal);
  const announcer = new Announcer(world, tokens, sender);
  const parts = { settings, tokens, windows, faults, log, closing: closing.signal };
  const server = await startHttpServer(parts, (add) => {
    addApiRoutes(add, world);
    addSubscriptionRoutes(add, settings, subscriptions, client);
    addOauthRoutes(add, settings, world, tokens, announcer);
    addTileRoute(add, settings.seed);
    addHomePage(add, world, subscriptions, announcer);
  });

  return {
    /** Origin, as "http://127.0.0.1:4000". */
    url: server.url,
    /** Live settings: a change applies from the next call on. */
    settings,
    async close() {
      closing.abort();
      faults.clear();
      await server.close();
      client.close();
    },

    get athletes(): readonly Athlete[] {
      return world.athletes;
    },
    addAthlete: (fields?: { id?: EntityId; name?: string }) => world.addAthlete(fields),
    /** Tokens without the browser flow; `seconds` is the access token's lifetime. */
    grantTokens(athleteId: EntityId, scope = defaultScope, seconds = settings.accessTokenSeconds) {
      return tokens.issuePair({ athleteId: existingAthlete(world, athleteId).id, scope }, seconds);
    },
    /** Ends the athlete's access tokens; refreshing still works. */
    invalidateAccessToken: (athleteId: EntityId) => tokens.invalidateAccessTokens(toEntityId(athleteId)),
    /** Ends all the athlete's tokens without notifying the subscriber. */
    revoke: (athleteId: EntityId) => tokens.revoke(toEntityId(athleteId)),

    /** Adds an activity silently. Its start defaults to one that ends now. */
    addActivity: (athleteId: EntityId, fields?: NewActivity) => ({ id: world.addActivity(athleteId, fields).id }),
    /** Adds that many activities, one every `everyMs` back from now (default 12 hours); newest id last. */
    addHistory(athleteId: EntityId, count: number, fields: ActivityFields = {}, everyMs = halfDayMs) {
      const newest = now() - everyMs;
      return Array.from({ length: count }, (_, index) => {
        const startDate = Math.floor((newest - (count - 1 - index) * everyMs) / 1_000) * 1_000;
        return { id: world.addActivity(athleteId, { startDate, ...fields }).id };
      });
    },
    updateActivity: (id: EntityId, patch: ActivityFields) => void world.updateActivity(id, patch),
    deleteActivity: (id: EntityId) => void world.deleteActivity(id),

    /** Posts an event to the subscriber, or to an explicit address, with redelivery. */
    deliver: (event: WebhookEvent, to?: DeliveryOptions) => sender.deliver(event, to),
    createActivityAndNotify: announcer.createActivity.bind(announcer),
    updateActivityAndNotify: announcer.updateActivity.bind(announcer),
    deleteActivityAndNotify: announcer.deleteActivity.bind(announcer),
    deauthorizeAndNotify: (athleteId: EntityId, event?: WebhookEvent) =>
      announcer.deauthorize(existingAthlete(world, athleteId).id, event),

    get subscriptions() {
      return subscriptions.list();
    },
    /** Subscribes a callback without a handshake. */
    subscribe: (callbackUrl: string) => subscriptions.add(callbackUrl),
    faults,

    /** Every call, in order of arrival. */
    calls: log.calls as readonly CallRecord[],
    clearCalls() {
      log.calls.length = 0;
    },
    /** The first finished call that matches, past or future. */
    waitForCall: (fits: (call: CallRecord) => boolean, timeoutMs = patienceMs) => log.waitForCall(fits, timeoutMs),
    /** The first call that matches as soon as it has arrived, answered or not. */
    waitForArrival: (fits: (call: CallRecord) => boolean, timeoutMs = patienceMs) =>
      log.waitForArrival(fits, timeoutMs),
    usage: () => windows.usage(now()),

    on: signals.on.bind(signals) as Signals['on'],
    off: signals.off.bind(signals) as Signals['off'],
  };
}

function existingAthlete(world: World, athleteId: EntityId): Athlete {
  const athlete = world.athlete(toEntityId(athleteId));
  if (athlete === undefined) throw new Error(`No athlete ${athleteId}; add one first`);
  return athlete;
}
