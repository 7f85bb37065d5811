import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { type CliRig, startCliRig } from '../support/cli.ts';
import type { Rig } from '../support/service.ts';

let rig: Rig;
let env: CliRig['env'];
let run: CliRig['run'];
let away: CliRig['away'];

beforeAll(async () => {
  ({ rig, env, run, away } = await startCliRig());
});
afterAll(() => rig.close());
afterEach(async () => {
  rig.simulator.faults.clear();
  await rig.admin('/api/admin/webhooks', { method: 'DELETE' });
});

const known = async () =>
  (await rig.service.database.query('SELECT subscription_id, callback_url FROM subscription')).map(
    (row) => row.callback_url,
  );

describe('the command line', () => {
  it.each([
    [['--help']],
    [['webhook', '--help']],
    [['sync', '--help']],
    [['jobs', 'purge', '--help']],
    [['migrate', '--help']],
  ])('shows how to use it: %j', async (args) => {
    const { code, out } = await run(args);
    expect(code).toBe(0);
    expect(out).toMatch(/^Usage: activity-sync/);
    if (args.length > 1) expect(out).toMatch(/Example|Commands:/);
  });

  it.each([
    [['bogus'], "unknown command 'bogus'"],
    [['jobs', 'list', '--status', 'lost'], 'Allowed choices are pending, working, done, failed'],
    [['jobs', 'purge'], '--status'],
    [['jobs', 'retry'], 'Give either a job id, or --status'],
    [['sync', '5', '--list'], 'use one of --follow, --cancel and --list'],
    [['jobs', 'retry', '3', '--athlete', '5'], 'Job 3 is one job: leave out --athlete'],
    [['jobs', 'list', '--limit', '0'], 'Error: --limit must be a whole number from 1 to 200.\n'],
    [
      ['jobs', 'list', '--athlete', 'x', '--activity', 'y'],
      '--athlete must be a whole number from 1 to 9223372036854775807.\n  --activity must',
    ],
    [['jobs', 'purge', '--status', 'done', '--older-than', 'x'], 'Error: --older-than must be a whole number'],
    [['jobs', 'retry', 'first'], 'Error: The id must be a whole number'],
    [['sync', '--after', 'yesterday'], 'Error: --after must be a time'],
    [['sync', '--after', '2025-01-02', '--before', '2025-01-01'], 'Error: --before must be later than --after.\n'],
    [['sync', 'first'], 'Error: The athlete’s id must be a whole number from 1 to 9223372036854775807, not "first".\n'],
    [
      ['sync', '--follow', 'first'],
      'Error: --follow must be a whole number from 1 to 9223372036854775807, not "first".\n',
    ],
    [['webhook', 'create', '--callback-url', 'here'], 'Error: --callback-url must be an http or https address.\n'],
    [['setup-webhooks', 'destroy'], 'Allowed choices are create'],
    [['webhook', 'list', '--url', 'nowhere'], '--url must be an http or https address'],
  ])('ends with 2 for wrong usage: %j', async (args, expected) => {
    const { code, out, err } = await run(args);
    expect(code).toBe(2);
    expect(out).toBe('');
    expect(err).toContain(expected);
  });

  it('ends with 2 and names every variable that is missing', async () => {
    const { code, err } = await run(['webhook', 'list', '--direct'], {});
    expect(code).toBe(2);
    expect(err).toContain('2 variables need attention');
    expect(err).toContain('PROVIDER_CLIENT_ID is missing');
    expect(err).toContain('PROVIDER_CLIENT_SECRET is missing');
  });

  it('ends with 2 when the admin token is not the service’s, and with 1 when no service answers', async () => {
    expect(await run(['jobs', 'list'], { ...env, ADMIN_TOKEN: 'a-token-of-another-service' })).toMatchObject({
      code: 2,
      err: 'Error: The service does not accept this ADMIN_TOKEN. Set the one that the service uses.\n',
    });
    expect(await run(['jobs', 'list'], await away())).toMatchObject({
      code: 1,
      err: expect.stringContaining('No service answers'),
    });
  });
});

describe('webhook', () => {
  it('creates, lists, checks and removes the subscription through the running service', async () => {
    const callbackUrl = `${env.NEXT_PUBLIC_BASE_URL}/api/provider/webhook`;
    expect(await run(['webhook', 'doctor'])).toMatchObject({ code: 1, out: expect.stringContaining('→ Create it') });
    const created = await run(['webhook', 'create', '--json']);
    expect(created.code).toBe(0);
    const { id } = JSON.parse(created.out) as { id: string };
    expect(await known()).toEqual([callbackUrl]);
    const listed = await run(['webhook', 'list']);
    expect(listed.out).toMatch(new RegExp(`ID +CALLBACK +CREATED\\n-.*\\n *${id} +${callbackUrl} +\\d{4}-`));
    const examined = await run(['webhook', 'doctor']);
    expect(examined.code).toBe(0);
    expect(examined.out).toContain('✓ handshake');
    expect(await run(['webhook', 'create'])).toMatchObject({
      code: 1,
      err: expect.stringMatching(
        new RegExp(
          `already exists\\. The application has subscription ${id} for this same address: npm run webhook:doctor`,
        ),
      ),
    });
    const elsewhere = await run(['webhook', 'create', '--callback-url', 'http://127.0.0.1:1/elsewhere']);
    expect(elsewhere).toMatchObject({
      code: 1,
      err: expect.stringContaining(
        `has subscription ${id} for ${callbackUrl}, and is allowed one: delete it first, with npm run webhook:clean`,
      ),
    });
    expect(await run(['webhook', 'clean'])).toMatchObject({ code: 0, out: 'Deleted one subscription.\n' });
    expect(await run(['webhook', 'list'])).toMatchObject({
      code: 0,
      out: expect.stringContaining('There is no subscription'),
    });
  });

  it('calls the provider directly when no service answers, and records the subscription in the database', async () => {
    const callbackUrl = `${rig.service.url}/api/provider/webhook`;
    const environment = await away();
    const created = await run(['webhook', 'create', '--callback-url', callbackUrl], environment);
    expect(created).toMatchObject({ code: 0, out: expect.stringContaining('Created subscription'), err: '' });
    expect(await known()).toEqual([callbackUrl]);
    expect(await run(['webhook', 'create', '--callback-url', callbackUrl], environment)).toMatchObject({
      code: 1,
      err: expect.stringContaining('for this same address: npm run webhook:doctor'),
    });
    expect(JSON.parse((await run(['webhook', 'list', '--json'], environment)).out)).toMatchObject({
      subscriptions: [{ callbackUrl }],
    });
    const { code, out } = await run(['webhook', 'doctor'], environment);
    expect(code).toBe(1);
    expect(out).toContain('✗ handshake: The callback does not answer: ECONNREFUSED');
    expect(await run(['webhook', 'clean'], environment)).toMatchObject({ code: 0 });
    expect(await known()).toEqual([]);
  });

  it('says when it cannot record what it did', async () => {
    const environment = await away({ DATABASE_URL: 'postgres://no-user@127.0.0.1:1/none' });
    const { code, err } = await run(['webhook', 'list'], environment);
    expect(code).toBe(0);
    expect(err).toContain('nothing is recorded');
  });

  it('passes on the provider’s refusal', async () => {
    const refused = await run(['webhook', 'create', '--callback-url', 'http://127.0.0.1:1/nobody']);
    expect(refused).toMatchObject({ code: 1, err: expect.stringContaining('not verifiable') });
  });
});

describe('setup-webhooks', () => {
  it('checks the access token with GET /athlete, then creates the subscription', async () => {
    const athlete = rig.simulator.addAthlete({ name: 'Token Holder' });
    const { accessToken } = rig.simulator.grantTokens(athlete.id);
    const { code, out, err } = await run(['setup-webhooks', 'create'], { ...env, PROVIDER_ACCESS_TOKEN: accessToken });
    expect({ code, err }).toEqual({
      code: 0,
      err: `The access token is valid: athlete ${athlete.id}, Token Holder.\n`,
    });
    expect(out).toContain('Created subscription');
    expect(out + err).not.toContain(accessToken);
    const [check] = rig.simulator.calls.filter((call) => call.path === '/api/v3/athlete');
    expect(check).toMatchObject({ method: 'GET', status: 200, athleteId: athlete.id });
  });

  it('creates nothing with a token that the provider refuses, or without one', async () => {
    const token = 'an-access-token-that-expired';
    const { code, err } = await run(['setup-webhooks', 'create'], { ...env, PROVIDER_ACCESS_TOKEN: token });
    expect(code).toBe(1);
    expect(err).toContain('refuses the token in PROVIDER_ACCESS_TOKEN');
    expect(err).not.toContain(token);
    expect(await run(['setup-webhooks', 'create'])).toMatchObject({
      code: 2,
      err: expect.stringContaining('PROVIDER_ACCESS_TOKEN is missing'),
    });
    expect(rig.simulator.subscriptions).toHaveLength(0);
  });
});
