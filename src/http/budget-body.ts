import { z } from 'zod';
import type { BudgetState } from '../queue/budget.ts';
import type { WaitCause } from '../store/job-waits.ts';
import { timeOut } from './query-fields.ts';

/** The budget in an answer. */
export const budgetOut = z.strictObject({
  window: z.strictObject({ start: timeOut, end: timeOut }),
  configuredCapacity: z.int(),
  capacity: z
    .int()
    .meta({ description: 'Calls allowed in this window: as configured, less a reduction or the provider’s own limit' }),
  used: z.int(),
  left: z.int(),
  backgroundUsed: z.int().meta({ description: 'Used for manual and polling jobs' }),
  reducedCapacity: z.int().nullable().meta({ description: 'After a 429, until it has recovered' }),
  blockedUntil: timeOut.nullable(),
  blockedBy: z.string().nullable(),
  daily: z.strictObject({ used: z.int(), limit: z.int().nullable() }),
  opensAt: z
    .strictObject({ webhook: timeOut.nullable(), manual: timeOut.nullable(), polling: timeOut.nullable() })
    .meta({ description: 'When the next call of each reason may be made; null: now' }),
  waiting: z
    .strictObject({ turn: z.int(), cooldown: z.int(), budget: z.int(), backoff: z.int() })
    .meta({ description: 'Pending jobs by what they wait for' }),
});

/** Makes the body of an answer. */
export function toBudgetBody({ windowStart, windowEnd, ...budget }: BudgetState, waiting: Record<WaitCause, number>) {
  return { window: { start: windowStart, end: windowEnd }, ...budget, waiting };
}
