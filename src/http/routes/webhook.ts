import { timingSafeEqual } from 'node:crypto';
import type { IncomingMessage, RequestListener } from 'node:http';
import express, { type ErrorRequestHandler, type Request, type RequestHandler, type Response, Router } from 'express';
import type { AcceptWebhook } from '../../flows/accept-webhook.ts';
import type { Deauthorize } from '../../flows/erase-athlete.ts';
import { type KnownSubscriptions, UnknownSubscriptionError } from '../../flows/known-subscriptions.ts';
import { isDatabaseAway } from '../../infra/database-errors.ts';
import type { Logger } from '../../infra/logger.ts';
import type { ACK_CODES, Metrics } from '../../infra/metrics.ts';
import { acceptPlainDeliveries, type Delivery } from '../plain-delivery.ts';
import { Problem, refuseOtherMethods } from '../problem.ts';
import { createRefusalLog } from '../refusal-log.ts';
import { BODY_LIMIT_BYTES, parseBody, rawBody, readJson } from '../route.ts';
import { checkSignature } from '../signature.ts';
import { readWebhookEvent } from '../webhook-event.ts';

export const WEBHOOK_PATH = '/api/provider/webhook';

export interface WebhookDependencies {
  acceptWebhook: AcceptWebhook;
  deauthorize: Deauthorize;
  knownSubscriptions: KnownSubscriptions;
  verifyToken: string;
  webhookSecret: string | undefined;
  logger: Logger;
  metrics: Metrics;
  now: () => number;
}

/** The provider's way in: validation of the callback, and the events. */
export interface Webhook {
  router: Router;
  /** Puts the short way of plain deliveries before the app that holds the router. */
  before(app: RequestListener): RequestListener;
}

export function createWebhook(deps: WebhookDependencies): Webhook {
  const warnOfRefusal = createRefusalLog(deps);
  const accept = acceptDelivery(deps, warnOfRefusal);
  const refused = new WeakMap<IncomingMessage, unknown>();
  const router = Router();
  router.get(WEBHOOK_PATH, validateCallback(deps));
  router.post(
    WEBHOOK_PATH,
    express.raw({ type: () => true, limit: BODY_LIMIT_BYTES }),
    refuseUnread(deps.metrics, warnOfRefusal),
    async (request: Request, response: Response) => {
      if (refused.has(request)) throw refused.get(request);
      const json = () => readJson(request, false);
      response.json(await accept({ headers: request.headers, body: rawBody(request) }, json));
    },
  );
  router.all(WEBHOOK_PATH, refuseOtherMethods('GET', 'HEAD', 'POST'));
  return {
    router,
    before: (app) =>
      acceptPlainDeliveries({
        path: WEBHOOK_PATH,
        maxBytes: BODY_LIMIT_BYTES,
        accept: (delivery) => accept(delivery, () => parseBody(delivery.body)),
        onRefused: (request, error) => refused.set(request, error),
        onBrokenOff: () => countUnread(deps.metrics),
        app,
      }),
  };
}

function validateCallback(deps: WebhookDependencies): RequestHandler {
  return (request, response) => {
    const { 'hub.mode': mode, 'hub.challenge': challenge, 'hub.verify_token': token } = request.query;
    const errors = [
      ...(mode === 'subscribe' ? [] : [{ field: 'query.hub.mode', message: 'must be "subscribe"' }]),
      ...(typeof challenge === 'string' && challenge.length > 0 && challenge.length <= 1000
        ? []
        : [{ field: 'query.hub.challenge', message: 'must be a string' }]),
      ...(typeof token === 'string' && token.length > 0
        ? []
        : [{ field: 'query.hub.verify_token', message: 'must be a string' }]),
    ];
    if (errors.length > 0)
      throw new Problem('badRequest', 'This is not a validation request of the provider.', { errors });
    if (!equals(token as string, deps.verifyToken))
      throw new Problem('forbidden', 'hub.verify_token is not the one that this service shares with the provider.');
    response.json({ 'hub.challenge': challenge });
  };
}

/** A body that is too large, broken off or compressed unreadably never gets to acceptDelivery. */
function countUnread(metrics: Metrics): void {
  metrics.webhookEvents.inc({ object_type: 'unknown', aspect_type: 'unknown', result: 'refused' });
}

function refuseUnread(metrics: Metrics, warnOfRefusal: (error: unknown) => void): ErrorRequestHandler {
  return (error, _request, _response, next) => {
    warnOfRefusal(error);
    countUnread(metrics);
    next(error);
  };
}

/** Accepts a delivery, counts and logs it. The function returned resolves with the body of the answer. */
function acceptDelivery(
  deps: WebhookDependencies,
  warnOfRefusal: (error: unknown) => void,
): (delivery: Delivery, json: () => unknown) => Promise<object> {
  return async (delivery, json) => {
    const startedAt = performance.now();
    const labels = { object_type: 'unknown', aspect_type: 'unknown', result: 'refused' };
    try {
      checkSignature(delivery, deps.webhookSecret, deps.now());
      const event = readWebhookEvent(json());
      labels.object_type = event.objectType;
      labels.aspect_type = event.aspect;
      await deps.knownSubscriptions.mustTrust(event.subscriptionId).catch(refuseUntrusted);
      if (event.objectType === 'athlete') {
        labels.result = event.deauthorized ? 'deauthorized' : 'accepted';
        if (event.deauthorized && !(await deps.deauthorize(event.ownerId, event.eventTime))) labels.result = 'stale';
        return { status: labels.result };
      }
      const { result, jobId } = await deps.acceptWebhook(event);
      labels.result = result === 'joined' ? 'accepted' : result;
      deps.logger.info(`webhook ${labels.result}`, {
        component: 'webhook',
        jobId,
        activityId: event.objectId,
        athleteId: event.ownerId,
        aspect: event.aspect,
      });
      return { status: labels.result, ...(jobId === undefined ? {} : { jobId }) };
    } catch (error) {
      labels.result = error instanceof Problem ? 'refused' : isDatabaseAway(error) ? 'unavailable' : 'failed';
      if (labels.result === 'refused') warnOfRefusal(error);
      throw error;
    } finally {
      deps.metrics.webhookEvents.inc(labels);
      deps.metrics.webhookAck.observe({ code: CODES[labels.result] ?? '200' }, (performance.now() - startedAt) / 1000);
    }
  };
}

const CODES: Record<string, (typeof ACK_CODES)[number]> = { refused: '4xx', unavailable: '503', failed: '500' };

function refuseUntrusted(error: unknown): never {
  if (error instanceof UnknownSubscriptionError) throw new Problem('forbidden', error.message);
  throw error;
}

function equals(given: string, expected: string): boolean {
  const a = Buffer.from(given);
  const b = Buffer.from(expected);
  return a.length === b.length && timingSafeEqual(a, b);
}
