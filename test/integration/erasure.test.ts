import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { notify } from '../../src/infra/notify.ts';
import { ask } from '../support/admin.ts';
import { keepLog } from '../support/kept-log.ts';
import { ENCRYPTION_KEY, type Rig, startRig } from '../support/service.ts';
import { until } from '../support/until.ts';

let rig: Rig;
const { logger, lines } = keepLog('debug', [ENCRYPTION_KEY]);

beforeAll(async () => {
  rig = await startRig({
    logger,
    env: { PROVIDER_AUTO_SYNC_ENABLED: 'true', FETCH_CONCURRENCY: '4', FETCH_BACKOFF_BASE_MS: '3600000' },
  });
});
afterAll(() => rig.close());

/** What identifies an athlete, or what they did. */
interface Traces {
  athleteId: string;
  ids: string[];
  words: string[];
}

/** Every table of ours and of pg-boss with how many of its rows hold one of these, in any column. */
async function findRows(needles: readonly string[]): Promise<Record<string, number>> {
  const { database } = rig.service;
  const tables = await database.query<{ name: string }>(
    `SELECT format('%I.%I', table_schema, table_name) AS name FROM information_schema.tables
     WHERE table_schema IN ('public', 'pgboss') AND table_type = 'BASE TABLE'`,
  );
  expect(tables.length).toBeGreaterThan(20);
  const found: Record<string, number> = {};
  for (const { name } of tables) {
    const [row] = await database.query<{ n: number }>(
      `SELECT count(*)::int AS n FROM ${name} t WHERE EXISTS (SELECT FROM unnest($1::text[]) needle WHERE t::text ~ ('\\m' || needle || '\\M'))`,
      [needles],
    );
    if (row && row.n > 0) found[name] = row.n;
  }
  return found;
}

/** Lets an athlete leave a trace wherever one can be left; one fetch and one list are under way at the end. */
async function leaveTraces(athleteId: string, name: string): Promise<Traces & { letGo: () => void }> {
  const { simulator } = rig;
  await rig.connectAthlete(name, athleteId);
  const titles: string[] = [];
  const add = (word: string) => {
    titles.push(`${word}${athleteId}x`);
    return simulator.addActivity(athleteId, { name: titles.at(-1) as string }).id;
  };
  const [stored, broken, missing, removed] = [add('Morningside'), add('Broken'), add('Missing'), add('Removed')];
  simulator.faults.add({ kind: 'status', status: 500, match: { activityId: broken } });
  simulator.faults.add({ kind: 'status', status: 404, match: { activityId: missing } });
  const event = { owner_id: athleteId };
  const deliver = (fields: object) =>
    simulator.deliver({ ...event, ...fields }, { url: `${rig.service.url}/api/provider/webhook` });
  for (const object_id of [stored, broken, missing, removed]) await deliver({ object_id });
  await rig.untilJob(stored, ({ outcome }) => outcome === 'stored');
  await rig.untilJob(removed, ({ outcome }) => outcome === 'stored');
  await rig.untilJob(broken, ({ attempts }) => attempts > 0);
  await rig.untilJob(missing, ({ status }) => status === 'failed');
  simulator.deleteActivity(removed);
  await deliver({ object_id: removed, aspect_type: 'delete', event_time: Math.floor(Date.now() / 1000) + 5 });
  await deliver({ object_id: stored, aspect_type: 'update', updates: { title: titles[0] as string } });
  await rig.untilJob(removed, ({ outcome }) => outcome === 'deleted');
  await until(async () => (await findRows([stored]))['public.thumbnail'] === 1, 'the picture');

  for (const [method, path, body] of [
    ['POST', '/api/admin/activity-jobs', { activityId: stored, athleteId, force: true }],
    ['POST', `/api/admin/activity-jobs/retry?status=failed&activityId=${missing}`],
    ['DELETE', `/api/admin/activity-jobs?status=failed&athleteId=${athleteId}`],
    ['DELETE', `/api/admin/activity-jobs?status=failed&activityId=${removed}`],
    ['POST', `/api/admin/athletes/${athleteId}/sync`, { force: true }],
    ['POST', '/api/admin/sync', {}],
  ] as const)
    expect((await ask(rig, method, path, body)).status).toBeLessThan(300);
  await until(async () => (await findRows([broken]))['public.sync_item'] !== undefined, 'the sync');
  const { events } = (await ask(rig, 'GET', `/api/admin/webhook-events?athleteId=${athleteId}`)).body;
  await ask(rig, 'POST', `/api/admin/webhook-events/${events[0].id}/replay`);
  await ask(rig, 'POST', `/api/admin/activity-jobs/${(await rig.untilJob(broken, () => true)).id}/retry`);

  const throttled = add('Throttled');
  simulator.faults.add({ kind: 'retryAfter429', retryAfter: 60, match: { activityId: throttled }, times: 1 });
  await deliver({ object_id: throttled });
  await rig.untilJob(throttled, ({ error }) => error !== null);
  await unblock();
  const underWay = add('Underway');
  const run = simulator.faults.add({ kind: 'hold', match: { activityId: underWay } });
  const list = simulator.faults.add({ kind: 'hold', match: { athleteId, path: /athlete\/activities/ } });
  await deliver({ object_id: underWay });
  await run.held;
  await ask(rig, 'POST', `/api/admin/athletes/${athleteId}/sync`, {});
  await rig.service.database.query(`UPDATE list_walk SET finished_at = '-infinity' WHERE kind = 'polling'`);
  await notify(rig.service.database, 'polling');
  await list.held;
  return {
    athleteId,
    ids: [athleteId, stored, broken, missing, removed, underWay, throttled],
    words: [...name.split(' '), ...titles],
    letGo: () => {
      run.remove();
      list.remove();
    },
  };
}

/** Lets calls be made again although the provider asked to wait; what the wait was about stays noted. */
async function unblock(): Promise<void> {
  await rig.service.database.query(`UPDATE rate_budget SET blocked_until = '-infinity'`);
  await notify(rig.service.database, 'budget');
}

/** Another athlete's activity passes through the whole service: earlier work has then ended. */
async function showLife(): Promise<void> {
  const other = await rig.connectAthlete('Somebody Else');
  const { id } = rig.simulator.addActivity(other);
  await rig.simulator.deliver({ object_id: id, owner_id: other }, { url: `${rig.service.url}/api/provider/webhook` });
  await rig.untilJob(id, ({ outcome }) => outcome === 'stored', 20_000);
}

const WAYS = [
  {
    way: 'a deauthorisation that the provider tells',
    athleteId: '777000111222',
    name: 'Wilhelmina Quastenflosser',
    erase: async (athleteId: string) => {
      rig.simulator.revoke(athleteId);
      const event = { object_type: 'athlete' as const, object_id: athleteId, owner_id: athleteId };
      const { status } = await rig.simulator.deliver(
        { ...event, aspect_type: 'update', updates: { authorized: 'false' } },
        { url: `${rig.service.url}/api/provider/webhook` },
      );
      expect(status).toBe(200);
      await until(
        async () =>
          (await rig.service.database.query('SELECT FROM athlete WHERE athlete_id = $1', [athleteId])).length === 0,
        'the erasure',
      );
    },
  },
  {
    way: 'DELETE /api/admin/athletes/{id}',
    athleteId: '777000111333',
    name: 'Leopoldine Zwetschgenbaum',
    erase: async (athleteId: string) => {
      expect(await ask(rig, 'DELETE', `/api/admin/athletes/${athleteId}`)).toMatchObject({ status: 200 });
      expect(await ask(rig, 'DELETE', `/api/admin/athletes/${athleteId}`)).toMatchObject({ status: 404 });
    },
  },
];

describe.each(WAYS)('an athlete who is erased by $way', ({ athleteId, name, erase }) => {
  let traces: Awaited<ReturnType<typeof leaveTraces>>;
  let linesBefore: string[];

  beforeAll(async () => {
    lines.splice(0);
    traces = await leaveTraces(athleteId, name);
    const found = await findRows([...traces.ids, ...traces.words]);
    for (const table of ['athlete', 'activity', 'activity_fetch_job', 'webhook_event', 'audit_entry', 'sync_item'])
      expect(found[`public.${table}`]).toBeGreaterThan(0); // so that the search is known to find something
    await erase(athleteId);
    linesBefore = lines.splice(0);
    traces.letGo();
    await showLife();
  }, 60_000);

  it('leaves no row in any table except the change athlete.disconnected: no token, activity, picture, job, delivery or audit', async () => {
    expect(await findRows([...traces.ids, ...traces.words])).toEqual({ 'public.change': 1 });
    const changes = await rig.service.database.query('SELECT type FROM change WHERE athlete_id = $1', [athleteId]);
    expect(changes).toEqual([{ type: 'athlete.disconnected' }]);
  });

  it('is named in no line of the log after that', () => {
    const needles = [...traces.ids, ...traces.words];
    expect(lines.filter((line) => needles.some((needle) => line.includes(needle)))).toEqual([]);
    expect(lines.length).toBeGreaterThan(0);
  });

  it('was named before that only by ids: no name, title, route or token', async () => {
    const text = linesBefore.join('');
    expect(text).toContain(athleteId);
    for (const word of traces.words) expect(text).not.toContain(word);
    expect(text).not.toMatch(/polyline|v1\.[0-9a-f]{8}\./);
  });
});
