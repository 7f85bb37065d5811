import { z } from 'zod';

const wholeNumber = (fallback: number, min = 0, max = 2_147_483_647) => {
  const error = `must be a whole number from ${min} to ${max}`;
  return z.coerce.number({ error }).int(error).min(min, error).max(max, error).default(fallback);
};
const address = z.url({ protocol: /^https?$/, error: 'must be an http or https address', abort: true });
const hasOnlyPath = (value: string) => {
  const { origin, pathname, href } = new URL(value);
  return href === origin + pathname && !value.endsWith('?') && !value.endsWith('#');
};
// Normalised for comparison: lower case, without the default port.
const plain = (value: string) => new URL(value).href.replace(/\/+$/, '');
const baseUrl = address.refine(hasOnlyPath, 'must be an address without user, query and fragment').transform(plain);
const origin = address
  .refine(
    (value) => hasOnlyPath(value) && /^\/*$/.test(new URL(value).pathname),
    'must be only scheme and host: no path, user or query',
  )
  .transform(plain);
const isTileTemplate = (value: string) =>
  address.safeParse(value).success &&
  ['{z}', '{x}', '{y}'].every((part) => value.includes(part)) &&
  !/[{}]|%7b/i.test(new URL(value).host) &&
  // Another placeholder, such as {r}, would be sent literally.
  !/[{}]/.test(value.replace(/\{[zxy]\}/g, ''));
// What a request can carry as "Authorization: Bearer …".
const adminToken = z
  .string()
  .trim()
  .min(16, 'must have at least 16 characters')
  .regex(/^[\x21-\x7e]*$/, 'must be printable ASCII characters without spaces');
const text = z.string().trim().min(1);
const postgresUrl = z.string().regex(/^postgres(ql)?:\/\//, 'must begin with postgres://');
const flag = (fallback: boolean) =>
  z
    .enum(['true', 'false', '1', '0', 'enabled', 'disabled'])
    .default(fallback ? 'true' : 'false')
    .transform((value) => value === 'true' || value === '1' || value === 'enabled');

export const ROLES = ['web', 'fetch', 'thumbnail', 'polling', 'delivery'] as const;
export type Role = (typeof ROLES)[number];

const roles = z
  .string()
  .default(ROLES.join(','))
  .transform((value) => value.split(',').map((role) => role.trim()))
  .pipe(z.array(z.enum(ROLES)).min(1));

/** The allowed values of a variable, and how a message explains it. */
export interface Variable {
  schema: z.ZodType;
  meaning: string;
  example: string;
  secret?: true;
}

const variable = <S extends z.ZodType>(schema: S, meaning: string, example: string, secret?: true) => ({
  schema,
  meaning,
  example,
  ...(secret ? { secret } : {}),
});

/**
 * The variables in the order in which .env.example lists them. Text in <angle brackets> in an example is a placeholder:
 * the service does not start with it as a value.
 */
export const VARIABLES = {
  PROVIDER_CLIENT_ID: variable(text, 'client id of your application at the provider', '<client id>'),
  PROVIDER_CLIENT_SECRET: variable(text, 'client secret of your application at the provider', '<client secret>', true),
  NEXT_PUBLIC_BASE_URL: variable(baseUrl, 'public base URL of this service', 'https://<public host>'),
  PROVIDER_VERIFY_TOKEN: variable(
    text.optional(),
    'random string that the provider repeats when it validates the webhook; needed for webhooks',
    '<random string>',
    true,
  ),
  PROVIDER_RATE_LIMIT_CAPACITY: variable(wholeNumber(600, 1), 'provider calls per interval', '600'),
  PROVIDER_RATE_LIMIT_INTERVAL: variable(wholeNumber(900_000, 100), 'the interval in milliseconds', '900000'),
  PROVIDER_ATHLETE_COOLDOWN: variable(wholeNumber(15_000), 'milliseconds between fetches for one athlete', '15000'),
  PROVIDER_AUTO_SYNC_ENABLED: variable(flag(true), 'false disables the automatic polling sync', 'true'),
  PROVIDER_WORKER_INTERVAL_MS: variable(
    wholeNumber(14_400_000, 1000),
    'interval of the polling worker in milliseconds; 604800000 is weekly',
    '14400000',
  ),
  DATABASE_URL: variable(
    postgresUrl.optional(),
    'PostgreSQL server (15 or later); unset: an embedded one kept under DATA_DIR',
    'postgres://<user>:<password>@<host>/activity_sync',
    true,
  ),
  MIGRATE_ON_START: variable(
    flag(true),
    'false: a start changes nothing in the database; run npm run migrate before it',
    'true',
  ),
  MIGRATE_DATABASE_URL: variable(
    postgresUrl.optional(),
    'address for migrations, with a role that may create tables; the role of DATABASE_URL is granted what it needs. Unset: DATABASE_URL',
    'postgres://<owner>:<password>@<host>/activity_sync',
    true,
  ),
  DATA_DIR: variable(text.default('./data'), 'folder of the embedded PostgreSQL', './data'),
  TRUSTED_PROXIES: variable(
    wholeNumber(0),
    'number of proxies in front of this service; X-Forwarded-For then names the client address that the limits on signing in and connecting apply to',
    '1',
  ),
  PORT: variable(wholeNumber(3000, 0, 65_535), 'port to listen on', '3000'),
  ADMIN_TOKEN: variable(
    adminToken.optional(),
    'token of the admin interface; without it the interface is closed',
    '<random string>',
    true,
  ),
  ADMIN_READ_TOKEN: variable(
    adminToken.optional(),
    'read-only token for the admin interface; must differ from ADMIN_TOKEN',
    '<random string>',
    true,
  ),
  TOKEN_ENCRYPTION_KEY: variable(
    z
      .string()
      .regex(
        /^[0-9a-fA-F]{64}(,[0-9a-fA-F]{64})*$/,
        'must be 64 hexadecimal digits; several keys, newest first, are separated by commas',
      )
      .optional(),
    'key that encrypts athlete tokens at rest: 64 hexadecimal digits (openssl rand -hex 32); several, newest first, to rotate',
    '<64 hex digits>',
    true,
  ),
  PROVIDER_API_URL: variable(
    origin.default('https://www.strava.com'),
    'origin of the provider; /api/v3/… and /oauth/… follow',
    'https://www.strava.com',
  ),
  PROVIDER_WEBHOOK_SECRET: variable(
    text.optional(),
    'when set, webhook deliveries must carry a valid signature',
    '<secret>',
    true,
  ),
  SERVICE_ROLES: variable(roles, `comma-separated list of ${ROLES.join(', ')}`, 'web,fetch,thumbnail,polling,delivery'),
  LOG_LEVEL: variable(
    z.enum(['error', 'warn', 'info', 'debug']).default('info'),
    'least severe level that is logged',
    'info',
  ),
  FETCH_CONCURRENCY: variable(wholeNumber(3, 1), 'concurrent provider calls of this process', '3'),
  FETCH_POLL_INTERVAL_MS: variable(
    wholeNumber(2000, 50),
    'how often the fetch worker looks for jobs without a notification',
    '2000',
  ),
  FETCH_STALE_AFTER_MS: variable(wholeNumber(300_000, 500), 'a run that takes longer is reclaimed', '300000'),
  FETCH_BACKOFF_BASE_MS: variable(wholeNumber(30_000), 'wait before the first retry; doubles each time', '30000'),
  FETCH_BACKOFF_CAP_MS: variable(wholeNumber(3_600_000), 'longest wait before a retry', '3600000'),
  FETCH_TIMEOUT_MS: variable(wholeNumber(10_000, 10), 'time allowed for one provider call', '10000'),
  POLLING_STOP_AFTER: variable(wholeNumber(20, 1), 'known activities in a row after which polling stops', '20'),
  THUMBNAIL_SIZE: variable(wholeNumber(256, 16, 2048), 'width and height of a thumbnail in pixels', '256'),
  THUMBNAIL_DEBUG: variable(flag(false), 'true draws bounds and zoom on thumbnails', 'false'),
  THUMBNAIL_MAP_SOURCE: variable(
    z
      .string()
      .trim()
      .refine(
        (value) => value === 'none' || isTileTemplate(value),
        'must be none, or an http or https address with {z}, {x} and {y} after its host and nothing else in braces',
      )
      .default('none'),
    'none, or the URL template of a tile server that you may use',
    'https://<tile server>/{z}/{x}/{y}.png',
  ),
  RETURN_ORIGINS: variable(
    z
      .string()
      .default('')
      .transform((value) =>
        value
          .split(',')
          .map((one) => one.trim())
          .filter((one) => one !== ''),
      )
      .pipe(z.array(origin)),
    'comma-separated origins of your application to which a connect link may return the browser; unset: no connect links',
    'https://<application host>',
  ),
  API_RATE_LIMIT: variable(
    wholeNumber(600, 1),
    'requests to /api/v1 that one token may send in a minute to this process',
    '600',
  ),
  DELIVERY_CONCURRENCY: variable(
    wholeNumber(200, 2, 10_000),
    'concurrent calls of this process to the application’s endpoints',
    '200',
  ),
  OUTBOUND_ALLOW_PRIVATE: variable(
    flag(false),
    'true allows endpoints on private addresses and with http; for development only',
    'false',
  ),
  CHANGE_RETENTION_DAYS: variable(
    wholeNumber(30, 1, 36_500),
    'days that changes and their deliveries are kept; an older cursor has expired',
    '30',
  ),
  JOB_RETENTION_DAYS: variable(wholeNumber(30, 1, 36_500), 'days that finished jobs and ledger entries are kept', '30'),
} as const satisfies Record<string, Variable>;

/** What every installation sets, at the top of .env.example. Without the last the service starts, with its console closed. */
export const TO_SET = [
  'PROVIDER_CLIENT_ID',
  'PROVIDER_CLIENT_SECRET',
  'NEXT_PUBLIC_BASE_URL',
  'PROVIDER_VERIFY_TOKEN',
  'ADMIN_TOKEN',
] as const satisfies readonly (keyof typeof VARIABLES)[];

/** Variables that only commands read. */
export const COMMAND_VARIABLES = {
  PROVIDER_ACCESS_TOKEN: variable(
    text,
    'access token of an athlete; setup-webhooks checks it before it creates the subscription',
    '<access token>',
    true,
  ),
} as const satisfies Record<string, Variable>;
