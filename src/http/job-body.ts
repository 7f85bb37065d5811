import { z } from 'zod';
import { OUTCOMES, REASONS, STATUSES } from '../domain/job.ts';
import type { JobCounts } from '../store/job-counts.ts';
import { time, timeOut } from './query-fields.ts';
import { int64, int64Out } from './route.ts';

/** An ActivityFetchJob in an answer: the documented fields, and the outcome. */
export const jobOut = z.strictObject({
  id: int64Out,
  activityId: int64Out,
  athleteId: int64Out,
  reason: z.enum(REASONS),
  force: z.boolean().meta({ description: 'Re-fetch an activity that is already stored' }),
  status: z.enum(STATUSES),
  attempts: z.int().meta({ description: 'Retries scheduled so far' }),
  maxAttempts: z.int(),
  nextRunAt: timeOut.meta({ description: 'When it is due, with backoff, cooldown and budget taken into account' }),
  error: z.string().nullable().meta({ description: 'The last error' }),
  createdAt: timeOut,
  updatedAt: timeOut,
  outcome: z.enum(OUTCOMES).nullable().meta({ description: 'How it ended; null while it is open' }),
});

/** Which jobs a list or a bulk change is about. */
export const jobFilterFields = {
  athleteId: int64.optional(),
  activityId: int64.optional(),
  reason: z.enum(REASONS).optional(),
  since: time.optional().meta({ description: 'Last changed at or after' }),
  until: time.optional().meta({ description: 'Last changed before' }),
  error: z
    .string()
    .min(1)
    .max(500)
    .optional()
    .meta({ description: 'Part of the last error; a number of four digits or more, and …, match any such number' }),
};

export const jobPath = z.object({ id: int64 });

/** How many jobs have each status. */
export const statsOut = z.strictObject({
  pending: z.int(),
  working: z.int(),
  done: z.int(),
  failed: z.int(),
  total: z.int(),
});

/** The statistics of the queue as answers show them. */
export function withTotal(counts: JobCounts) {
  return { ...counts, total: counts.pending + counts.working + counts.done + counts.failed };
}
