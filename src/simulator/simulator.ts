import { Announcer } from './announcer.ts';
import { ApiRoutes } from './api-routes.ts';
import { CallLog, type CallRecord } from './call-log.ts';
import { type EntityId, toEntityId } from './entity-id.ts';
import { FaultList } from './faults.ts';
import { HomeRoutes } from './home-routes.ts';
import { startHttpServer } from './http-server.ts';
import { TileBook } from './map-tile.ts';
import { OauthRoutes } from './oauth-routes.ts';
import { providerTime, resolveSettings, type SimulatorOptions } from './options.ts';
import { OutboundClient } from './outbound-client.ts';
import { Pauses } from './pauses.ts';
import { RateWindows } from './rate-windows.ts';
import type { Simulator } from './simulator-contract.ts';
import { SubscriptionRegistry } from './subscription-registry.ts';
import { SubscriptionRoutes } from './subscription-routes.ts';
import { TokenRegistry } from './token-registry.ts';
import { type DeliveryAttempt, WebhookSender } from './webhook-sender.ts';
import { type Athlete, World } from './world.ts';

export type { Simulator } from './simulator-contract.ts';

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
  const announcer = new Announcer(world, tokens, sender);
  const routes = {
    api: new ApiRoutes(settings, world),
    oauth: new OauthRoutes(settings, world, tokens, announcer),
    subscriptions: new SubscriptionRoutes(settings, subscriptions, client),
    tiles: new TileBook(settings.seed),
    home: new HomeRoutes(world, subscriptions, announcer),
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
    createActivityAndNotify: (athleteId, fields, event) => announcer.createActivity(athleteId, fields, event),
    updateActivityAndNotify: (id, patch, event) => announcer.updateActivity(id, patch, event),
    deleteActivityAndNotify: (id, event) => announcer.deleteActivity(id, event),
    deauthorizeAndNotify: (athleteId, event) => announcer.deauthorize(existingAthlete(world, athleteId).id, event),

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
