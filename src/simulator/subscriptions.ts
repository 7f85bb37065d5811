import { randomBytes } from 'node:crypto';
import { type AddRoute, answerError, answerJson, type Handler, parameter, unauthorized } from './answer.ts';
import type { OutboundClient } from './outbound-client.ts';
import type { Settings } from './settings.ts';

const handshakeTimeoutMs = 2_000;

export interface Subscription {
  readonly id: number;
  readonly callbackUrl: string;
  /** Epoch milliseconds of the provider's clock. */
  readonly createdAt: number;
}

/** The application's push subscriptions; the provider allows one. */
export class Subscriptions {
  readonly #now: () => number;
  readonly #subscriptions = new Map<number, Subscription>();
  #nextId = 120_475;

  constructor(now: () => number) {
    this.#now = now;
  }

  list(): Subscription[] {
    return [...this.#subscriptions.values()];
  }

  /** Adds a subscription without asking the callback. */
  add(callbackUrl: string): Subscription {
    const subscription = { id: this.#nextId++, callbackUrl, createdAt: this.#now() };
    this.#subscriptions.set(subscription.id, subscription);
    return subscription;
  }

  /** Removes a subscription; false when there is none of that id. */
  remove(id: number): boolean {
    return this.#subscriptions.delete(id);
  }
}

/** `/api/v3/push_subscriptions`: creation with its handshake, list and deletion. */
export function addSubscriptionRoutes(
  add: AddRoute,
  settings: Settings,
  subscriptions: Subscriptions,
  client: OutboundClient,
): void {
  const asApplication =
    (handler: Handler): Handler =>
    (request, grant) => {
      const id = parameter(request, 'client_id');
      const secret = parameter(request, 'client_secret');
      return id === settings.clientId && secret === settings.clientSecret ? handler(request, grant) : unauthorized;
    };
  add(
    'get',
    '/api/v3/push_subscriptions',
    asApplication(() => {
      const rows = subscriptions.list().map((subscription) => describe(subscription, settings.clientId));
      return answerJson(200, JSON.stringify(rows));
    }),
  );
  add(
    'post',
    '/api/v3/push_subscriptions',
    asApplication(async (request) => {
      const callbackUrl = parameter(request, 'callback_url') ?? '';
      const verifyToken = parameter(request, 'verify_token') ?? '';
      if (callbackUrl === '') return refusal('callback url', 'required');
      if (verifyToken === '') return refusal('verify token', 'required');
      if (!/^https?:\/\//.test(callbackUrl) || !URL.canParse(callbackUrl)) return refusal('callback url', 'invalid');
      if (subscriptions.list().length > 0) return refusal('', 'already exists');
      if (!(await verify(client, callbackUrl, verifyToken))) return refusal('callback url', 'not verifiable');
      if (subscriptions.list().length > 0) return refusal('', 'already exists');
      return answerJson(201, JSON.stringify({ id: subscriptions.add(callbackUrl).id }));
    }),
  );
  add(
    'delete',
    '/api/v3/push_subscriptions/:id',
    asApplication(({ params }) => {
      if (subscriptions.remove(Number(params.id))) return { status: 204, body: '' };
      return answerError(404, 'Record Not Found', 'PushSubscription', 'id', 'not found');
    }),
  );
}

/** The handshake: the callback must repeat the challenge, while the creating call is still open. */
async function verify(client: OutboundClient, callbackUrl: string, verifyToken: string): Promise<boolean> {
  const challenge = randomBytes(8).toString('hex');
  const url = new URL(callbackUrl);
  url.searchParams.set('hub.mode', 'subscribe');
  url.searchParams.set('hub.challenge', challenge);
  url.searchParams.set('hub.verify_token', verifyToken);
  const reply = await client.send('GET', url.href, {}, '', handshakeTimeoutMs);
  return reply.status === 200 && repeatedChallenge(reply.body) === challenge;
}

function refusal(field: string, code: string) {
  return answerError(400, 'Bad Request', 'PushSubscription', field, code);
}

function describe(subscription: Subscription, clientId: string): object {
  const moment = `${new Date(subscription.createdAt).toISOString().slice(0, 19)}Z`;
  return {
    id: subscription.id,
    resource_state: 2,
    application_id: Number(clientId) || 1,
    callback_url: subscription.callbackUrl,
    created_at: moment,
    updated_at: moment,
  };
}

function repeatedChallenge(body: string): unknown {
  try {
    const parsed: unknown = JSON.parse(body);
    return typeof parsed === 'object' && parsed !== null && 'hub.challenge' in parsed
      ? parsed['hub.challenge']
      : undefined;
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}
