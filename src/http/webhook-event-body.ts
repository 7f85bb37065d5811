import { z } from 'zod';
import { ASPECTS, OUTCOMES, STATUSES } from '../domain/job.ts';
import { LEDGER_RESULTS } from '../store/webhook-events.ts';
import { time, timeOut } from './query-fields.ts';
import { int64, int64Out } from './route.ts';

/** An event of the ledger in an answer. */
export const deliveryOut = z.strictObject({
  id: int64Out,
  activityId: int64Out.nullable().meta({ description: 'Null for an event of the athlete' }),
  athleteId: int64Out,
  subscriptionId: int64Out.nullable(),
  aspect: z.enum(ASPECTS),
  eventTime: timeOut.meta({ description: 'When it happened, by the provider’s clock' }),
  updates: z.record(z.string(), z.unknown()),
  result: z.enum(LEDGER_RESULTS).meta({
    description:
      'stale: older than the newest event handled, so nothing changed; refuted: the deletion it announced was not true',
  }),
  deliveries: z.int().meta({ description: 'How often it was delivered' }),
  receivedAt: timeOut,
  lastReceivedAt: timeOut,
});

/** The same with its result. */
export const ledgerEntryOut = z.strictObject({
  ...deliveryOut.shape,
  job: z
    .strictObject({
      id: int64Out,
      status: z.enum(STATUSES),
      outcome: z.enum(OUTCOMES).nullable(),
      error: z.string().nullable(),
    })
    .nullable()
    .meta({ description: 'The activity’s job as it is now; null when it has been deleted' }),
});

/** Which deliveries a list or a replay is about. */
export const eventFilterFields = {
  athleteId: int64.optional(),
  activityId: int64.optional(),
  result: z.enum(LEDGER_RESULTS).optional(),
  since: time.optional().meta({ description: 'Received at or after' }),
  until: time.optional().meta({ description: 'Received before' }),
};
