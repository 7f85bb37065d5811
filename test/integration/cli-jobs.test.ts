import { once } from 'node:events';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { type CliRig, startCli, startCliRig } from '../support/cli.ts';
import { createTestDatabase } from '../support/database.ts';
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

describe('sync', () => {
  it('starts a sync and shows its progress to the end', async () => {
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
      err: expect.stringContaining('has already ended'),
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
    const child = startCli(['sync', athleteId, '--wait'], env);
    child.stdout.resume();
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

  it('records the sync in the database when no service answers, for any 64-bit id, and a service starts it', async () => {
    const athleteId = await rig.connectAthlete();
    rig.simulator.addHistory(athleteId, 2);
    const { code, out, err } = await run(['sync', athleteId, '--wait'], await away());
    expect(err).toContain('No service answers; the sync is recorded in the database');
    expect({ code, out }).toEqual({ code: 0, out: expect.stringContaining('2/2 fetched · finished') });
    expect(await run(['sync', '--after', 'soon'], await away())).toMatchObject({ code: 2 });
    const toCome = ['sync', '--after', '2999-01-01'];
    expect(await run(toCome)).toMatchObject({ code: 2, err: 'Error: --after must not be in the future.\n' });
    expect(await run(toCome, await away())).toMatchObject({
      code: 2,
      err: 'Error: 2999-01-01T00:00:00.000Z is in the future: no activity is newer.\n',
    });
    const [largest, tooLarge] = ['9223372036854775807', '9223372036854775808'];
    expect(await run(['sync', largest], await away())).toMatchObject({
      code: 1,
      err: `Error: Athlete ${largest} is not connected.\n`,
    });
    expect(await run(['sync', tooLarge], await away())).toMatchObject({
      code: 2,
      err: `Error: The athlete’s id must be a whole number from 1 to 9223372036854775807, not "${tooLarge}".\n`,
    });
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
    expect(listed.out).toContain('the provider answered HTTP 404 (Record Not Found: Activity id not found)\n');
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
    expect((await run(['jobs', 'list', '--activity', id])).out).toContain('No job matches.');
    expect(await run(['jobs', 'retry', '77777'])).toMatchObject({ code: 1, err: 'Error: There is no job 77777.\n' });
  });
});

describe('migrate', () => {
  it('needs only the database, and can be repeated', async () => {
    const database = await createTestDatabase({ template: false });
    const environment = { DATABASE_URL: database.url };
    const first = await run(['migrate'], environment);
    expect(first.code).toBe(0);
    expect(first.out).toMatch(/The schema is up to date: the last migration is \d{4}-[a-z-]+\.sql\./);
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
