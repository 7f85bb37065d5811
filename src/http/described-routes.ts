import { z } from 'zod';
import { ASPECTS } from '../domain/job.ts';
import type { DescribedRoute } from './openapi.ts';
import { int64, int64Out } from './route.ts';
import { MAX_SCOPE_LENGTH } from './routes/oauth.ts';
import { MAX_UPDATES } from './webhook-event.ts';

const webhookEvent = z.looseObject({
  object_type: z.enum(['activity', 'athlete']),
  object_id: int64,
  aspect_type: z.enum(ASPECTS),
  owner_id: int64,
  subscription_id: int64,
  event_time: z.int().meta({
    description:
      'Seconds since the epoch; more than a day in the future, the time of the first delivery counts instead',
  }),
  updates: z.record(z.string(), z.unknown()).meta({ maxProperties: MAX_UPDATES }).nullish(),
});

const readyOut = z.looseObject({ status: z.string() });

/** Endpoints that are not a Route, because the provider, a browser or a probe dictates their form. */
export const describedRoutes: readonly DescribedRoute[] = [
  {
    method: 'get',
    path: '/api/provider/webhook',
    summary: 'Validation of the callback by the provider',
    access: 'public',
    query: z.object({
      'hub.mode': z.literal('subscribe'),
      'hub.challenge': z.string().min(1).max(1000),
      'hub.verify_token': z.string().min(1),
    }),
    responses: {
      200: { description: 'The challenge', schema: z.strictObject({ 'hub.challenge': z.string() }) },
      403: { description: 'Not the verification token' },
    },
  },
  {
    method: 'post',
    path: '/api/provider/webhook',
    summary: 'Delivery of an event by the provider; answered when it is durable',
    access: 'public',
    body: webhookEvent,
    responses: {
      200: {
        description: 'Durable',
        schema: z.strictObject({
          status: z.enum(['accepted', 'duplicate', 'stale', 'refuted', 'deauthorized']),
          jobId: int64Out.optional(),
        }),
      },
      403: { description: 'A subscription that is not ours, or a signature that is missing or wrong' },
    },
  },
  {
    method: 'get',
    path: '/api/provider/connect',
    summary: 'Send an athlete’s browser to the provider, to grant access',
    access: 'public',
    query: z.object({
      link: z
        .string()
        .optional()
        .meta({ description: 'From POST /api/v1/connect-links: the user whom the application connects' }),
    }),
    responses: { 302: { description: 'To the provider' } },
  },
  {
    method: 'get',
    path: '/api/provider/callback',
    summary: 'The athlete’s browser comes back from the provider; a client that prefers HTML gets problems as a page',
    access: 'public',
    query: z.object({
      state: z.string(),
      code: z.string().optional(),
      scope: z.string().max(MAX_SCOPE_LENGTH).optional(),
      error: z.string().optional(),
    }),
    responses: {
      200: { description: 'Connected', contentType: 'text/html' },
      302: { description: 'To the returnUrl of the connect link, with status and athleteId' },
      403: { description: 'Access was not granted', contentType: 'text/html', schema: z.string() },
      429: { description: 'Too many attempts from this address' },
      502: { description: 'The provider refused the code' },
    },
  },
  {
    method: 'get',
    path: '/healthz',
    summary: 'The process is alive',
    access: 'public',
    responses: { 200: { description: 'It does', schema: z.strictObject({ status: z.literal('ok') }) } },
  },
  {
    method: 'get',
    path: '/readyz',
    summary: 'The process can serve: database, schema, listener',
    access: 'public',
    responses: {
      200: { description: 'Ready', schema: readyOut },
      503: { description: 'Not ready; the body says which part', schema: readyOut },
    },
  },
  {
    method: 'get',
    path: '/metrics',
    summary: 'Metrics for Prometheus',
    access: 'public',
    responses: { 200: { description: 'In text form', contentType: 'text/plain' } },
  },
];
