import { z } from 'zod';
import type { Int64 } from '../domain/int64.ts';
import { type ActivityEvent, ASPECTS } from '../domain/job.ts';
import { toStorableText } from '../domain/storable-text.ts';
import { toFieldErrors } from './field-errors.ts';
import { Problem } from './problem.ts';
import { int64 } from './route.ts';

/** An event of an athlete: only the withdrawal of access matters. */
export interface AthleteEvent {
  objectType: 'athlete';
  aspect: 'create' | 'update' | 'delete';
  ownerId: Int64;
  subscriptionId: Int64;
  deauthorized: boolean;
  updates: Record<string, unknown>;
  eventTime: Date;
  signed: boolean;
}

export type WebhookEvent = (ActivityEvent & { objectType: 'activity' }) | AthleteEvent;

const updateValue = z.union([z.string().transform(toStorableText), z.boolean(), z.number(), z.null()]);
export const MAX_UPDATES = 50;
// Before any value is checked: each bad one costs far more than its bytes.
const updates = z
  .unknown()
  .refine((value) => countKeys(value) <= MAX_UPDATES, `must have at most ${MAX_UPDATES} keys`)
  .pipe(z.record(z.string().transform(toStorableText), updateValue));
const MAX_EPOCH_S = 32_503_680_000; // the year 3000
const NO_TIME = `must be whole seconds since the epoch, from 1 to ${MAX_EPOCH_S}`;
const epochSeconds = z
  .union(
    [
      z.number(),
      z
        .string()
        .regex(/^[0-9]{1,11}$/)
        .transform(Number),
    ],
    { error: NO_TIME },
  )
  .pipe(z.number(NO_TIME).int(NO_TIME).min(1, NO_TIME).max(MAX_EPOCH_S, NO_TIME));

const eventSchema = z.object({
  object_type: z.enum(['activity', 'athlete']),
  object_id: int64,
  aspect_type: z.enum(ASPECTS),
  owner_id: int64,
  subscription_id: int64,
  event_time: epochSeconds,
  updates: updates.nullish(),
});

/**
 * Reads the body of a delivery. Unknown fields are ignored: the provider may add some.
 * @param signed the delivery carried a valid signature
 * @throws Problem 400 naming each bad field
 */
export function readWebhookEvent(body: unknown, signed: boolean): WebhookEvent {
  const result = eventSchema.safeParse(body);
  if (!result.success) {
    const errors = toFieldErrors('body', result.error.issues);
    throw new Problem('badRequest', `The event cannot be read: ${errors.map(({ field }) => field).join(', ')}.`, {
      errors,
    });
  }
  const event = result.data;
  const updates = event.updates ?? {};
  if (event.object_type === 'athlete') {
    const authorized = updates.authorized;
    return {
      objectType: 'athlete',
      aspect: event.aspect_type,
      ownerId: event.owner_id,
      subscriptionId: event.subscription_id,
      deauthorized: authorized === 'false' || authorized === false,
      updates,
      eventTime: new Date(event.event_time * 1000),
      signed,
    };
  }
  return {
    objectType: 'activity',
    objectId: event.object_id,
    ownerId: event.owner_id,
    aspect: event.aspect_type,
    eventTime: new Date(event.event_time * 1000),
    subscriptionId: event.subscription_id,
    updates,
    signed,
  };
}

function countKeys(value: unknown): number {
  return typeof value === 'object' && value !== null ? Object.keys(value).length : 0;
}
