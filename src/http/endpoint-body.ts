import { z } from 'zod';
import { DELIVERED_TYPES } from '../domain/change.ts';
import { DISABLED_REASONS } from '../store/endpoints.ts';
import { timeOut } from './query-fields.ts';
import { int64Out } from './route.ts';

export const ATTEMPT_RESULTS = ['delivered', 'retry', 'exhausted'] as const;

export const endpointOut = z.strictObject({
  id: int64Out,
  url: z.string(),
  types: z.array(z.enum(DELIVERED_TYPES)).nullable().meta({ description: 'null: every type' }),
  athleteIds: z.array(int64Out).nullable().meta({ description: 'null: every athlete' }),
  description: z.string(),
  createdAt: timeOut,
  succeededAt: timeOut.nullable(),
  failingSince: timeOut.nullable().meta({ description: 'The first failure since the last success' }),
  disabledAt: timeOut.nullable(),
  disabledReason: z
    .enum(DISABLED_REASONS)
    .nullable()
    .meta({ description: 'gone: it answered 410; failing: every delivery failed for five days; request: PATCH' }),
  waiting: z.int().meta({ description: 'Deliveries not yet settled' }),
});
