import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { createTestDatabase } from '../support/database.ts';
import { ADMIN_TOKEN, ENCRYPTION_KEY, type Rig, startRig, testEnvironment, VERIFY_TOKEN } from '../support/service.ts';
import { freePort } from '../support/service-process.ts';

const MAIN = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url));
const SECRETS = [ADMIN_TOKEN, VERIFY_TOKEN, ENCRYPTION_KEY, 'simulator-secret'];
let rig: Rig;
let env: Record<string, string>;

beforeAll(async () => {
  const port = String(await freePort());
  const address = { PORT: port, NEXT_PUBLIC_BASE_URL: `http://127.0.0.1:${port}` };
  rig = await startRig({ env: address });
  env = testEnvironment(rig.simulator.url, address);
});
afterAll(() => rig.close());
afterEach(async () => {
  rig.simulator.faults.clear();
  await rig.admin('/api/admin/webhooks', { method: 'DELETE' });
});

interface Outcome {
  code: number | null;
  out: string;
  err: string;
}

/** Runs a command as its own process. What it prints never holds a secret. */
async function run(args: string[], environment: Record<string, string | undefined> = env): Promise<Outcome> {
  const set = Object.entries(environment).filter((entry): entry is [string, string] => entry[1] !== undefined);
  const child = spawn(process.execPath, [MAIN, ...args], {
    cwd: tmpdir(), // no .env of whoever runs the tests
    env: { PATH: process.env.PATH ?? '', HOME: process.env.HOME ?? '', ...Object.fromEntries(set) },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let out = '';
  let err = '';
  child.stdout.on('data', (chunk: Buffer) => {
    out += chunk;
  });
  child.stderr.on('data', (chunk: Buffer) => {
    err += chunk;
  });
  await once(child, 'close');
  for (const secret of SECRETS) expect(out + err).not.toContain(secret);
  return { code: child.exitCode, out, err };
}

/** The environment of somebody whose service does not run. */
const away = async (changes: Record<string, string | undefined> = {}) => {
  const port = String(await freePort());
  return {
    ...env,
    PORT: port,
    NEXT_PUBLIC_BASE_URL: `http://127.0.0.1:${port}`,
    DATABASE_URL: rig.database.url,
    ...changes,
  };
};
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
    [['sync', '--after', 'yesterday'], 'body.after must be a time'],
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
    expect(await run(['jobs', 'list'], { ...env, ADMIN_TOKEN: 'a-token-of-somebody-else' })).toMatchObject({ code: 2 });
    expect(await run(['jobs', 'list'], await away())).toMatchObject({
      code: 1,
      err: expect.stringContaining('No service answers'),
    });
  });
});

describe('webhook', () => {
  it('creates, lists, examines and removes the subscription through the running service', async () => {
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
    expect(await run(['webhook', 'create'])).toMatchObject({ code: 1, err: expect.stringContaining('already exists') });
    expect(await run(['webhook', 'clean'])).toMatchObject({ code: 0, out: 'Deleted one subscription.\n' });
    expect(await run(['webhook', 'list'])).toMatchObject({
      code: 0,
      out: expect.stringContaining('There is no subscription'),
    });
  });

  it('asks the provider itself where no service answers, and records the subscription in the database', async () => {
    const callbackUrl = `${rig.service.url}/api/provider/webhook`;
    const environment = await away();
    const created = await run(['webhook', 'create', '--callback-url', callbackUrl], environment);
    expect(created).toMatchObject({ code: 0, out: expect.stringContaining('Created subscription'), err: '' });
    expect(await known()).toEqual([callbackUrl]);
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
    const environment = await away({ DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none' });
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

describe('sync', () => {
  it('begins a sync and shows its progress to the end', async () => {
    const athleteId = await rig.connectAthlete();
    const ids = rig.simulator.addHistory(athleteId, 30).map(({ id }) => id);
    const { code, out, err } = await run(['sync', athleteId, '--wait']);
    expect(code).toBe(0);
    expect(out).toMatch(/^sync \d+ \[█{24}\] 100% · 30\/30 fetched · finished\n$/);
    expect(err).toMatch(/sync \d+ \[/);
    for (const id of ids) await rig.untilJob(id, ({ reason, status }) => reason === 'manual' && status === 'done');

    const begun = JSON.parse((await run(['sync', athleteId, '--after', '2020-01-01', '--force', '--json'])).out) as {
      id: string;
    };
    const followed = JSON.parse((await run(['sync', '--follow', begun.id, '--json'])).out);
    expect(followed).toMatchObject({
      id: begun.id,
      state: 'finished',
      force: true,
      queued: 30,
      after: '2020-01-01T00:00:00.000Z',
    });
    expect((await run(['sync', '--list'])).out).toMatch(
      new RegExp(`${begun.id} +${athleteId} +finished +30 +30 +30 +0`),
    );
    expect(await run(['sync', '--cancel', begun.id])).toMatchObject({
      code: 1,
      err: expect.stringContaining('has ended already'),
    });
    expect(await run(['sync', '--follow', '99999'])).toMatchObject({
      code: 1,
      err: 'Error: There is no sync 99999.\n',
    });
  });

  it('can be interrupted, and followed again', async () => {
    const athleteId = await rig.connectAthlete();
    rig.simulator.addHistory(athleteId, 3);
    const hold = rig.simulator.faults.add({ kind: 'hold', match: { athleteId } });
    const child = spawn(process.execPath, [MAIN, 'sync', athleteId, '--wait'], {
      env: { ...env, PATH: process.env.PATH ?? '' },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    let err = '';
    child.stderr.on('data', (chunk: Buffer) => {
      err += chunk;
      if (err.includes('to read') && !child.killed) child.kill('SIGINT');
    });
    await once(child, 'close');
    expect(child.exitCode).toBe(1);
    const id = /--follow (\d+)/.exec(err)?.[1] as string;
    hold.release();
    expect(await run(['sync', '--follow', id])).toMatchObject({
      code: 0,
      out: expect.stringContaining('3/3 fetched · finished'),
    });
  });

  it('ends with 1 when the sync fails, or the athlete is not known', async () => {
    const athleteId = await rig.connectAthlete();
    rig.simulator.faults.add({ kind: 'status', status: 403, match: { athleteId } });
    expect(await run(['sync', athleteId, '--wait'])).toMatchObject({ code: 1, out: expect.stringContaining('failed') });
    expect(await run(['sync', '424242'])).toMatchObject({ code: 1, err: 'Error: Athlete 424242 is not connected.\n' });
  });

  it('notes the sync in the database where no service answers, and a service begins it', async () => {
    const athleteId = await rig.connectAthlete();
    rig.simulator.addHistory(athleteId, 2);
    const { code, out, err } = await run(['sync', athleteId, '--wait'], await away());
    expect(err).toContain('No service answers; the sync is noted in the database');
    expect({ code, out }).toEqual({ code: 0, out: expect.stringContaining('2/2 fetched · finished') });
    expect(await run(['sync', '--after', 'soon'], await away())).toMatchObject({ code: 2 });
  });
});

describe('jobs', () => {
  it('lists, retries and purges', async () => {
    const athleteId = await rig.connectAthlete();
    const { id } = rig.simulator.addActivity(athleteId);
    rig.simulator.faults.add({ kind: 'status', status: 404, match: { activityId: id }, times: 1 });
    const body = JSON.stringify({ activityId: id, athleteId, reason: 'manual', force: false });
    await rig.admin('/api/admin/activity-jobs', { method: 'POST', body });
    const failed = await rig.untilJob(id, ({ status }) => status === 'failed');

    const listed = await run(['jobs', 'list', '--status', 'failed', '--athlete', athleteId]);
    expect(listed.code).toBe(0);
    expect(listed.out).toMatch(/pending \d+ +working \d+ +done \d+ +failed 1 +total \d+/);
    expect(listed.out).toMatch(new RegExp(`${failed.id} +${id} +${athleteId} +manual +failed \\(notFound\\) +0/5`));
    expect(await run(['jobs', 'retry', failed.id])).toMatchObject({
      code: 0,
      out: `Job ${failed.id} is pending again.\n`,
    });
    await rig.untilJob(id, ({ status }) => status === 'done');
    expect(await run(['jobs', 'retry', '--status', 'failed', '--json'])).toMatchObject({
      code: 0,
      out: '{\n  "retried": 0\n}\n',
    });
    expect(await run(['jobs', 'purge', '--status', 'done', '--athlete', athleteId])).toMatchObject({
      code: 0,
      out: 'Deleted 1 job.\n',
    });
    expect((await run(['jobs', 'list', '--activity', id])).out).toContain('No job fits.');
    expect(await run(['jobs', 'retry', '77777'])).toMatchObject({ code: 1, err: 'Error: There is no job 77777.\n' });
  });
});

describe('migrate', () => {
  it('needs the database alone, and may be run again', async () => {
    const database = await createTestDatabase({ template: false });
    const environment = { DATABASE_URL: database.url };
    const first = await run(['migrate'], environment);
    expect(first.code).toBe(0);
    expect(first.out).toMatch(/The schema is up to date: \d+ migrations/);
    expect(JSON.parse((await run(['migrate', '--json'], environment)).out)).toMatchObject({
      migrations: expect.any(Array),
    });
    await database.drop();
    expect(await run(['migrate'], environment)).toMatchObject({
      code: 1,
      err: expect.stringContaining('does not exist'),
    });
  });
});
