import { randomBytes } from 'node:crypto';
import { type Answer, answerError, answerJson, type Call, parameter, unauthorized, unknownPath } from './exchange.ts';
import type { Settings } from './options.ts';
import type { OutboundClient } from './outbound-client.ts';
import type { Subscription, SubscriptionRegistry } from './subscription-registry.ts';

const handshakeTimeoutMs = 2_000;

/** `/api/v3/push_subscriptions`: creation with its handshake, list and deletion. */
export class SubscriptionRoutes {
  readonly #settings: Settings;
  readonly #subscriptions: SubscriptionRegistry;
  readonly #client: OutboundClient;

  constructor(settings: Settings, subscriptions: SubscriptionRegistry, client: OutboundClient) {
    this.#settings = settings;
    this.#subscriptions = subscriptions;
    this.#client = client;
  }

  answer(call: Call, rest: string): Answer | Promise<Answer> {
    const id = parameter(call, 'client_id');
    const secret = parameter(call, 'client_secret');
    if (id !== this.#settings.clientId || secret !== this.#settings.clientSecret) return unauthorized;
    if (rest === '' && call.method === 'GET') return this.#list();
    if (rest === '' && call.method === 'POST') return this.#create(call);
    if (/^\/\d+$/.test(rest) && call.method === 'DELETE') return this.#delete(Number(rest.slice(1)));
    return unknownPath;
  }

  #list(): Answer {
    const rows = this.#subscriptions.list().map((subscription) => describe(subscription, this.#settings.clientId));
    return answerJson(200, JSON.stringify(rows));
  }

  async #create(call: Call): Promise<Answer> {
    const callbackUrl = parameter(call, 'callback_url') ?? '';
    const verifyToken = parameter(call, 'verify_token') ?? '';
    if (callbackUrl === '') return refusal('callback url', 'required');
    if (verifyToken === '') return refusal('verify token', 'required');
    if (!/^https?:\/\//.test(callbackUrl) || !URL.canParse(callbackUrl)) return refusal('callback url', 'invalid');
    if (this.#subscriptions.list().length > 0) return refusal('', 'already exists');
    if (!(await this.#verify(callbackUrl, verifyToken))) return refusal('callback url', 'not verifiable');
    if (this.#subscriptions.list().length > 0) return refusal('', 'already exists');
    return answerJson(201, JSON.stringify({ id: this.#subscriptions.add(callbackUrl).id }));
  }

  #delete(id: number): Answer {
    if (this.#subscriptions.remove(id)) return { status: 204, body: '' };
    return answerError(404, 'Record Not Found', 'PushSubscription', 'id', 'not found');
  }

  /** The handshake: the callback must repeat the challenge, while the creating call is still open. */
  async #verify(callbackUrl: string, verifyToken: string): Promise<boolean> {
    const challenge = randomBytes(8).toString('hex');
    const url = new URL(callbackUrl);
    url.searchParams.set('hub.mode', 'subscribe');
    url.searchParams.set('hub.challenge', challenge);
    url.searchParams.set('hub.verify_token', verifyToken);
    const reply = await this.#client.send('GET', url.href, {}, '', handshakeTimeoutMs);
    return reply.status === 200 && repeatedChallenge(reply.body) === challenge;
  }
}

function refusal(field: string, code: string): Answer {
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
