import { z } from 'zod';
import { CHANGE_TYPES } from '../domain/change.ts';
import { nextCursorOut, timeOut } from './query-fields.ts';
import { int64Out } from './route.ts';

export const externalIdOut = z.string().nullable().meta({ description: 'The application’s own id for this user' });
/** The application's own id for a user, in a request. */
export const externalIdIn = z
  .string()
  .min(1)
  .max(200)
  .regex(/^[^\0]*$/, 'must not contain U+0000');

export const applicationActivityOut = z.strictObject({
  id: int64Out,
  athleteId: int64Out,
  externalId: externalIdOut,
  name: z.string(),
  sportType: z.string(),
  startDate: timeOut,
  timezone: z.string().nullable(),
  distanceM: z.number(),
  movingTimeS: z.int(),
  elapsedTimeS: z.int(),
  elevationGainM: z.number(),
  private: z.boolean(),
  updatedAt: timeOut,
  hasThumbnail: z.boolean(),
});

export const applicationAthleteOut = z.strictObject({
  id: int64Out,
  externalId: externalIdOut,
  name: z.string().nullable(),
  state: z.enum(['healthy', 'reconnect', 'scope']).meta({
    description: 'reconnect: send them through a connect link again; scope: the granted scope is insufficient',
  }),
  scope: z.string(),
  connectedAt: timeOut,
  updatedAt: timeOut,
  activities: z.int().meta({ description: 'How many are stored' }),
});

export const changeOut = z.strictObject({
  cursor: z.string().meta({ description: 'Pass it as `after` to continue behind this change' }),
  id: z.uuid().meta({ description: 'The same in every repeat; also sent as webhook-id' }),
  type: z.enum(CHANGE_TYPES),
  at: timeOut,
  athleteId: int64Out.nullable(),
  externalId: externalIdOut,
  activityId: int64Out.nullable(),
  endpointId: int64Out.nullable().meta({ description: 'For endpoint.disabled' }),
});

export const activityPageOut = z.strictObject({
  activities: z.array(applicationActivityOut),
  nextCursor: nextCursorOut,
});
export const athletePageOut = z.strictObject({ athletes: z.array(applicationAthleteOut), nextCursor: nextCursorOut });
