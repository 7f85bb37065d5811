import { z } from 'zod';
import { toInt64 } from '../domain/int64.ts';
import { toStorableText } from '../domain/storable-text.ts';

/** A 64-bit id in a provider answer: a number, or a string where it is too large for one. */
const id = z.unknown().transform((value, context) => {
  const parsed = toInt64(value);
  if (parsed === undefined) context.issues.push({ code: 'custom', input: value, message: 'must be a 64-bit id' });
  return parsed as string;
});
const MAX_SECONDS = 2 ** 31 - 1; // what the database holds: 68 years
const optionalNumber = z
  .number()
  .nullish()
  .transform((value) => value ?? 0);
const optionalSeconds = z
  .number()
  .max(MAX_SECONDS)
  .nullish()
  .transform((value) => value ?? 0);
const optionalText = z
  .string()
  .nullish()
  .transform((value) => (value == null ? undefined : toStorableText(value)));
const optionalFlag = z
  .boolean()
  .nullish()
  .transform((value) => value ?? false);

// Only what the service uses is checked; everything else the provider sends is kept as it is.
const common = {
  id,
  name: z
    .string()
    .nullish()
    .transform((value) => toStorableText(value ?? '')),
  sport_type: optionalText,
  type: optionalText, // deprecated name of sport_type, the only one in old answers
  start_date: z.iso.datetime({ offset: true }).regex(/^(19|2\d)/, 'must lie in the years 1900 to 2999'),
  timezone: optionalText,
  distance: optionalNumber,
  moving_time: optionalSeconds,
  elapsed_time: optionalSeconds,
  total_elevation_gain: optionalNumber,
  private: optionalFlag,
};

/** GET /api/v3/activities/{id} */
export const activityDetailSchema = z.object({ ...common, athlete: z.object({ id }) });
export type ActivityDetail = z.output<typeof activityDetailSchema>;

/** One entry of GET /api/v3/athlete/activities */
export const activitySummarySchema = z.object(common);
export type ActivitySummary = z.output<typeof activitySummarySchema>;

const MAX_LISTED = 1000; // several times the largest page requested

/** A list from the provider; its length is checked first, since each bad entry costs far more than its bytes. */
export const listOf = <S extends z.ZodType>(entry: S) => z.array(z.unknown()).max(MAX_LISTED).pipe(z.array(entry));

/** POST /oauth/token */
export const tokenSchema = z.object({
  access_token: z.string().min(1),
  refresh_token: z.string().min(1),
  expires_at: z.number().int().positive().max(32_503_680_000), // the year 3000
  athlete: z.object({ id, firstname: optionalText, lastname: optionalText }).nullish(),
});
export type TokenAnswer = z.output<typeof tokenSchema>;

/** GET /api/v3/athlete */
export const athleteSchema = z.object({ id, firstname: optionalText, lastname: optionalText });

/** GET and POST /api/v3/push_subscriptions */
export const subscriptionSchema = z.object({
  id,
  callback_url: optionalText,
  created_at: optionalText,
  updated_at: optionalText,
});
export type SubscriptionAnswer = z.output<typeof subscriptionSchema>;
