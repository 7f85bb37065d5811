import { timingSafeEqual } from 'node:crypto';
import express, { type ErrorRequestHandler, type Request, type RequestHandler, type Response, Router } from 'express';
import type { Int64 } from '../../domain/int64.ts';
import type { AcceptWebhook } from '../../flows/accept-webhook.ts';
import type { AcceptDeauthorization } from '../../flows/confirm-deauthorization.ts';
import {
  type KnownSubscriptions,
  NoSubscriptionError,
  UnknownSubscriptionError,
} from '../../flows/known-subscriptions.ts';
import { isUnavailable } from '../../infra/database-errors.ts';
import { ANSWER_MS } from '../../infra/database-policy.ts';
import type { Logger } from '../../infra/logger.ts';
import type { ACK_CODES, Metrics } from '../../infra/metrics.ts';
import { createAddressCount } from '../address-count.ts';
import { Problem, refuseOtherMethods, toProblem } from '../problem.ts';
import { createRefusalLog, createUnavailableLog } from '../refusal-log.ts';
import { BODY_LIMIT_BYTES, rawBody, readJson } from '../route.ts';
import { checkSignature } from '../signature.ts';
import { readWebhookEvent, type WebhookEvent } from '../webhook-event.ts';

export const WEBHOOK_PATH = '/api/provider/webhook';

export interface WebhookDependencies {
  acceptWebhook: AcceptWebhook;
  acceptDeauthorization: AcceptDeauthorization;
  knownSubscriptions: KnownSubscriptions;
  verifyToken: string;
  webhookSecret: string | undefined;
  logger: Logger;
  metrics: Metrics;
  now: () => number;
}

/** The provider's endpoint: validation of the callback, and the events. */
export function createWebhookRouter(deps: WebhookDependencies): Router {
  const warnOfRefusal = createRefusalLog(deps);
  const accept = acceptDelivery(deps, warnOfRefusal);
  const router = Router();
  router.get(WEBHOOK_PATH, validateCallback(deps));
  router.post(
    WEBHOOK_PATH,
    express.raw({ type: () => true, limit: BODY_LIMIT_BYTES }),
    refuseUnread(deps.metrics, warnOfRefusal),
    async (request: Request, response: Response) => {
      response.json(await accept(request));
    },
  );
  router.all(WEBHOOK_PATH, refuseOtherMethods('GET', 'HEAD', 'POST'));
  return router;
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
      throw new Problem(
        'forbidden',
        'hub.verify_token does not match the token that this service shares with the provider.',
      );
    response.json({ 'hub.challenge': challenge });
  };
}

/** Counts a body that is too large, incomplete or cannot be decompressed: it never reaches acceptDelivery. */
function refuseUnread(metrics: Metrics, warnOfRefusal: (error: unknown) => void): ErrorRequestHandler {
  return (error, _request, _response, next) => {
    warnOfRefusal(error);
    metrics.webhookEvents.inc({ object_type: 'unknown', aspect_type: 'unknown', result: 'refused' });
    next(error);
  };
}

/** Accepts a delivery, counts and logs it. The function returned resolves with the body of the answer. */
function acceptDelivery(
  deps: WebhookDependencies,
  warnOfRefusal: (error: unknown) => void,
): (request: Request) => Promise<object> {
  const guesses = createAddressCount(deps);
  const warnOfUnavailable = createUnavailableLog(deps);
  return async (request) => {
    const startedAt = performance.now();
    const labels = { object_type: 'unknown', aspect_type: 'unknown', result: 'refused' };
    try {
      checkSignature({ headers: request.headers, body: rawBody(request) }, deps.webhookSecret, deps.now());
      const event = readWebhookEvent(readJson(request, false), deps.webhookSecret !== undefined);
      labels.object_type = event.objectType;
      labels.aspect_type = event.aspect;
      const { result, jobId } = await answerInTime(acceptEvent(deps, event));
      labels.result = result;
      if (event.objectType === 'activity') {
        deps.logger.info(`webhook ${result}`, {
          component: 'webhook',
          jobId,
          activityId: event.objectId,
          athleteId: event.ownerId,
          aspect: event.aspect,
        });
      }
      return { status: result, ...(jobId === undefined ? {} : { jobId }) };
    } catch (error) {
      labels.result = isTemporary(error) ? 'unavailable' : error instanceof Problem ? 'refused' : 'failed';
      if (labels.result === 'failed') throw error;
      if (labels.result === 'unavailable') {
        warnOfUnavailable(error);
        throw toProblem(error);
      }
      warnOfRefusal(error);
      if ((error as Problem).code !== 'forbidden' || !guesses.isOver(request)) throw error;
      labels.result = 'limited';
      throw new Problem('tooManyRequests', 'Too many refused deliveries from this address. Wait a minute.', {
        headers: { 'Retry-After': '60' },
      });
    } finally {
      deps.metrics.webhookEvents.inc(labels);
      deps.metrics.webhookAck.observe({ code: CODES[labels.result] ?? '200' }, (performance.now() - startedAt) / 1000);
    }
  };
}

type Accepted = { result: string; jobId?: Int64 | undefined };

async function acceptEvent(deps: WebhookDependencies, event: WebhookEvent): Promise<Accepted> {
  await deps.knownSubscriptions.mustTrust(event.subscriptionId).catch(refuseUntrusted);
  if (event.objectType === 'activity') return deps.acceptWebhook(event);
  if (!event.deauthorized) return { result: 'accepted' };
  return { result: await deps.acceptDeauthorization({ ...event, athleteId: event.ownerId }) };
}

/** Answers in time whatever the database does; an event that commits later is recognised when it is delivered again. */
async function answerInTime<T>(work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    const problem = new Problem('unavailable', 'The event could not be stored in time; deliver it again shortly.', {
      headers: { 'Retry-After': '5' },
    });
    timer = setTimeout(() => reject(problem), ANSWER_MS);
  });
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}

function isTemporary(error: unknown): boolean {
  return error instanceof Problem ? error.code === 'unavailable' : isUnavailable(error);
}

const CODES: Record<string, (typeof ACK_CODES)[number]> = {
  refused: '4xx',
  limited: '4xx',
  unavailable: '503',
  failed: '500',
};

function refuseUntrusted(error: unknown): never {
  if (error instanceof UnknownSubscriptionError) throw new Problem('forbidden', error.message);
  if (error instanceof NoSubscriptionError)
    throw new Problem('unavailable', error.message, { headers: { 'Retry-After': '5' } });
  throw error;
}

function equals(given: string, expected: string): boolean {
  const a = Buffer.from(given);
  const b = Buffer.from(expected);
  return a.length === b.length && timingSafeEqual(a, b);
}
