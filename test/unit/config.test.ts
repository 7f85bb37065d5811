import { describe, expect, it } from '@jest/globals';
import { ConfigError, findUnknownVariables, readConfig, readSecrets } from '../../src/infra/config.ts';
import { VARIABLES } from '../../src/infra/config-variables.ts';

const REQUIRED = {
  PROVIDER_CLIENT_ID: '12345',
  PROVIDER_CLIENT_SECRET: 'client-secret',
  NEXT_PUBLIC_BASE_URL: 'https://sync.example.com/',
  PROVIDER_VERIFY_TOKEN: 'verify-token',
};
const KEY = 'ab'.repeat(32);
const messageOf = (env: Record<string, string>): string => {
  try {
    readConfig(env);
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigError);
    return (error as Error).message;
  }
  throw new Error('the configuration was accepted');
};

describe('the configuration', () => {
  it('has the documented defaults', () => {
    expect(readConfig(REQUIRED)).toMatchObject({
      NEXT_PUBLIC_BASE_URL: 'https://sync.example.com',
      PROVIDER_RATE_LIMIT_CAPACITY: 600,
      PROVIDER_RATE_LIMIT_INTERVAL: 900_000,
      PROVIDER_ATHLETE_COOLDOWN: 15_000,
      PROVIDER_AUTO_SYNC_ENABLED: true,
      PROVIDER_WORKER_INTERVAL_MS: 240 * 60_000,
      DATABASE_URL: undefined,
      DATA_DIR: './data',
      PORT: 3000,
      ADMIN_TOKEN: undefined,
      PROVIDER_API_URL: 'https://www.strava.com',
      SERVICE_ROLES: ['web', 'fetch', 'thumbnail', 'polling', 'delivery'],
      LOG_LEVEL: 'info',
      FETCH_CONCURRENCY: 3,
      FETCH_POLL_INTERVAL_MS: 2000,
      FETCH_STALE_AFTER_MS: 300_000,
      FETCH_BACKOFF_BASE_MS: 30_000,
      FETCH_BACKOFF_CAP_MS: 3_600_000,
      FETCH_TIMEOUT_MS: 10_000,
      POLLING_STOP_AFTER: 20,
      THUMBNAIL_SIZE: 256,
      THUMBNAIL_DEBUG: false,
      THUMBNAIL_MAP_SOURCE: 'none',
      JOB_RETENTION_DAYS: 30,
    });
  });

  it('takes an empty variable as unset', () => {
    expect(readConfig({ ...REQUIRED, PORT: '', ADMIN_TOKEN: '  ', FETCH_CONCURRENCY: '' })).toMatchObject({
      PORT: 3000,
      ADMIN_TOKEN: undefined,
      FETCH_CONCURRENCY: 3,
    });
  });

  it.each([
    ['false', false],
    ['0', false],
    ['disabled', false],
    ['true', true],
    ['1', true],
    ['enabled', true],
  ])('takes PROVIDER_AUTO_SYNC_ENABLED=%s', (given, enabled) => {
    expect(readConfig({ ...REQUIRED, PROVIDER_AUTO_SYNC_ENABLED: given }).PROVIDER_AUTO_SYNC_ENABLED).toBe(enabled);
  });

  it('migrates at a start unless MIGRATE_ON_START is false', () => {
    expect(readConfig(REQUIRED).MIGRATE_ON_START).toBe(true);
    expect(readConfig({ ...REQUIRED, MIGRATE_ON_START: 'false' }).MIGRATE_ON_START).toBe(false);
  });

  it('requires DATABASE_URL with MIGRATE_DATABASE_URL: an embedded database has one role', () => {
    expect(messageOf({ ...REQUIRED, MIGRATE_DATABASE_URL: 'postgres://owner@db/sync' })).toContain(
      'MIGRATE_DATABASE_URL is set without DATABASE_URL',
    );
  });

  it('accepts a comma-separated list of roles, and requires the verify token only for the role web', () => {
    const { PROVIDER_VERIFY_TOKEN, ...rest } = REQUIRED;
    expect(PROVIDER_VERIFY_TOKEN).toBeDefined();
    expect(readConfig({ ...rest, SERVICE_ROLES: 'fetch, thumbnail' }).SERVICE_ROLES).toEqual(['fetch', 'thumbnail']);
    expect(messageOf(rest)).toContain('PROVIDER_VERIFY_TOKEN is missing');
  });

  it.each(['https://provider.example.com', 'https://provider.example.com/', 'http://127.0.0.1:8080//'])(
    'takes the origin %s as the provider’s address',
    (given) => {
      expect(readConfig({ ...REQUIRED, PROVIDER_API_URL: given }).PROVIDER_API_URL).toBe(new URL(given).origin);
    },
  );

  // Every call would be answered 404, which means that the activity is gone.
  it.each(['/api/v3', '/?a=1', '/?', '/#b'])('refuses a provider’s address that goes on with %s', (rest) => {
    expect(messageOf({ ...REQUIRED, PROVIDER_API_URL: `https://provider.example.com${rest}` })).toContain(
      'PROVIDER_API_URL must be only scheme and host',
    );
  });

  it.each([
    'https://user:secret-word@sync.example.com',
    'https://sync.example.com/?a=1',
    'https://sync.example.com/#b',
  ])('refuses the public address %s without printing it', (given) => {
    const message = messageOf({ ...REQUIRED, NEXT_PUBLIC_BASE_URL: given });
    expect(message).toContain('NEXT_PUBLIC_BASE_URL must be an address without user, query and fragment');
    expect(message).not.toContain('secret-word');
  });

  it('normalises an address, since it is compared: scheme and host in lower case', () => {
    const { NEXT_PUBLIC_BASE_URL } = readConfig({
      ...REQUIRED,
      NEXT_PUBLIC_BASE_URL: 'HTTPS://Sync.example.com:443/Sub/',
    });
    expect(NEXT_PUBLIC_BASE_URL).toBe('https://sync.example.com/Sub');
  });

  it.each([
    ['PROVIDER_RATE_LIMIT_CAPACITY', '0', 'from 1 to 2147483647'],
    ['FETCH_POLL_INTERVAL_MS', '20', 'from 50 to 2147483647'],
    ['PORT', '65536', 'from 0 to 65535'],
    ['THUMBNAIL_SIZE', '15', 'from 16 to 2048'],
    ['THUMBNAIL_SIZE', 'large', 'from 16 to 2048'],
    // Beyond the times that the database knows nothing would ever be removed, with an error each hour.
    ['JOB_RETENTION_DAYS', '9999999', 'from 1 to 36500'],
  ])('refuses %s=%s, and says which numbers it takes', (name, given, range) => {
    expect(messageOf({ ...REQUIRED, [name]: given })).toContain(`${name} must be a whole number ${range}:`);
  });

  it.each(['none', 'http://127.0.0.1:8080/{z}/{x}/{y}.png?key=a'])('takes %s as the map source', (given) => {
    expect(readConfig({ ...REQUIRED, THUMBNAIL_MAP_SOURCE: given }).THUMBNAIL_MAP_SOURCE).toBe(given);
  });

  it.each([
    'None',
    'ftp://tiles.example.com/{z}/{x}/{y}.png',
    'https://tiles.example.com/{z}/{x}.png',
    'https://{z}.example.com/{x}/{y}.png',
    'https://{s}.tiles.example.com/{z}/{x}/{y}.png',
    'https://tiles.example.com/{z}/{x}/{y}{r}.png',
  ])('refuses %s as the map source', (given) => {
    expect(messageOf({ ...REQUIRED, THUMBNAIL_MAP_SOURCE: given })).toContain(
      'THUMBNAIL_MAP_SOURCE must be none, or an http or https address with {z}, {x} and {y} after its host',
    );
  });

  it('takes an admin token without the line break that files end with, and refuses one that no header can carry', () => {
    const token = '0123456789abcdef0123';
    expect(readConfig({ ...REQUIRED, ADMIN_TOKEN: `${token}\n` }).ADMIN_TOKEN).toBe(token);
    for (const given of ['correct horse battery staple', 'zu-kurz-für-einen-Kopf', `${token}\n${token}`])
      expect(messageOf({ ...REQUIRED, ADMIN_TOKEN: given })).toContain(
        'ADMIN_TOKEN must be printable ASCII characters',
      );
    expect(messageOf({ ...REQUIRED, ADMIN_TOKEN: `short${' '.repeat(20)}` })).toContain('at least 16 characters');
  });

  it('refuses one token for both kinds of access', () => {
    const token = '0123456789abcdef0123';
    expect(messageOf({ ...REQUIRED, ADMIN_TOKEN: token, ADMIN_READ_TOKEN: `${token} ` })).toContain(
      'ADMIN_READ_TOKEN is the same as ADMIN_TOKEN',
    );
  });

  it('requires the encryption key with DATABASE_URL', () => {
    const DATABASE_URL = 'postgres://user:database-password@db.example.com/sync';
    expect(messageOf({ ...REQUIRED, DATABASE_URL })).toContain('TOKEN_ENCRYPTION_KEY is missing');
    expect(readConfig({ ...REQUIRED, DATABASE_URL, TOKEN_ENCRYPTION_KEY: `${KEY},${KEY}` })).toMatchObject({
      DATABASE_URL,
    });
  });
});

describe('a start with wrong variables', () => {
  const WRONG = {
    NEXT_PUBLIC_BASE_URL: 'sync.example.com',
    PROVIDER_RATE_LIMIT_CAPACITY: '0',
    PROVIDER_RATE_LIMIT_INTERVAL: 'a quarter',
    PROVIDER_AUTO_SYNC_ENABLED: 'perhaps',
    DATABASE_URL: 'mysql://root:hunter2@db',
    PORT: '70000',
    ADMIN_TOKEN: 'short-secret',
    TOKEN_ENCRYPTION_KEY: 'not-hexadecimal-secret',
    PROVIDER_API_URL: 'ftp://provider',
    SERVICE_ROLES: 'web,cook',
    LOG_LEVEL: 'loud',
    FETCH_CONCURRENCY: '1.5',
    THUMBNAIL_SIZE: '8',
    THUMBNAIL_MAP_SOURCE: 'https://tiles.example.com/tile.png',
  };
  const message = messageOf(WRONG);
  const names = [...Object.keys(WRONG), 'PROVIDER_CLIENT_ID', 'PROVIDER_CLIENT_SECRET'];

  it.each(names)('names %s with its meaning and an example, in one message', (name) => {
    const line = message.split('\n').find((text) => text.startsWith(`  ${name} `));
    const { meaning, example } = VARIABLES[name as keyof typeof VARIABLES];
    expect(line).toContain(meaning);
    expect(line).toContain(`Example: ${name}=${example}`);
  });

  it('names each once, and says how many there are', () => {
    const lines = message.split('\n').slice(1);
    expect(new Set(lines.map((line) => line.trim().split(' ')[0])).size).toBe(lines.length);
    expect(message).toMatch(`${lines.length} variables need attention`);
  });

  it('prints no value, least of all a secret', () => {
    for (const secret of ['hunter2', 'short-secret', 'not-hexadecimal-secret', 'perhaps', 'cook']) {
      expect(message).not.toContain(secret);
    }
  });
});

describe('a placeholder of .env.example', () => {
  const all = Object.entries(VARIABLES).filter(([, { example }]) => example.includes('<'));

  it.each(all)('is refused as the value of %s', (name, { meaning, example }) => {
    const line = messageOf({ ...REQUIRED, [name]: example })
      .split('\n')
      .find((text) => text.startsWith(`  ${name} `));
    expect(line).toBe(`  ${name} still has the placeholder ${/<[^>]+>/.exec(example)?.[0]}: ${meaning}`);
  });

  it('is refused where a part of the value was filled in', () => {
    expect(messageOf({ ...REQUIRED, DATABASE_URL: 'postgres://sync:<password>@db/sync' })).toContain(
      'DATABASE_URL still has the placeholder <password>',
    );
  });

  it('is refused under another name, and named once', () => {
    const message = messageOf({ ...REQUIRED, PROVIDER_VERIFY_TOKEN: '<VERIFY_TOKEN>' });
    expect(message.match(/PROVIDER_VERIFY_TOKEN/g)).toHaveLength(1);
    expect(message).toContain('PROVIDER_VERIFY_TOKEN still has the placeholder <VERIFY_TOKEN>');
  });

  it('is told from a secret that has angle brackets', () => {
    expect(readConfig({ ...REQUIRED, PROVIDER_CLIENT_SECRET: 'a<b>c' }).PROVIDER_CLIENT_SECRET).toBe('a<b>c');
  });

  it('is no secret, so that the message can name it', () => {
    expect(readSecrets({ ...REQUIRED, ADMIN_TOKEN: '<random string>' })).not.toContain('<random string>');
  });
});

// cspell:ignore LIMT CLEINT
describe('a variable PROVIDER_… that the service does not know', () => {
  it.each([
    ['PROVIDER_RATE_LIMT_CAPACITY', 'PROVIDER_RATE_LIMIT_CAPACITY'],
    ['PROVIDER_ATHLETE_COOLDOWNS', 'PROVIDER_ATHLETE_COOLDOWN'],
    ['PROVIDER_CLEINT_ID', 'PROVIDER_CLIENT_ID'],
  ])('is refused as a typo: %s, with the nearest known one', (name, nearest) => {
    expect(messageOf({ ...REQUIRED, [name]: '100' })).toContain(
      `  ${name} is not a variable of the service. Did you mean ${nearest}?`,
    );
  });

  it('is named with the nearest known one, and refuses no start, where it may be another program’s', () => {
    const env = { ...REQUIRED, PROVIDER_COOLDOWN: '60000', PROVIDER_SERVICE_HOST: '10.0.0.1' };
    expect(readConfig(env)).toEqual(readConfig(REQUIRED));
    expect(findUnknownVariables(env)).toEqual([
      { name: 'PROVIDER_COOLDOWN', nearest: 'PROVIDER_ATHLETE_COOLDOWN', isTypo: false },
      { name: 'PROVIDER_SERVICE_HOST', nearest: expect.stringMatching(/^PROVIDER_/), isTypo: false },
    ]);
  });

  it('does not count when it is empty, and a command’s variable is known', () => {
    expect(findUnknownVariables({ ...REQUIRED, PROVIDER_COOLDOWN: ' ', PROVIDER_ACCESS_TOKEN: 'token' })).toEqual([]);
  });
});

describe('the secrets that nothing may print', () => {
  it('are the secret variables, each key of a list, and the password of the database', () => {
    const other = 'cd'.repeat(32);
    const secrets = readSecrets({
      ...REQUIRED,
      TOKEN_ENCRYPTION_KEY: `${KEY},${other}`,
      DATABASE_URL: 'postgres://user:pass%20word@db.example.com/sync',
      PORT: '3000',
    });
    expect(secrets).toEqual(expect.arrayContaining(['client-secret', 'verify-token', KEY, other, 'pass%20word']));
    expect(secrets).not.toContain('3000');
  });
});
