import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { metric } from '../support/metric.ts';
import { READ_TOKEN } from '../support/service.ts';
import { hasEnded, type Sync, type SyncRig, startSyncRig } from '../support/sync-rig.ts';
import { until } from '../support/until.ts';

let rig: SyncRig;
beforeAll(async () => {
  rig = await startSyncRig();
});
afterAll(() => rig.close());
afterEach(() => rig.simulator.faults.clear());

const listPath = /athlete\/activities/;
const isListed = ({ total }: Sync) => total !== null;

/** Begins a sync whose fetches get no answer: the list is what matters. */
async function beginWithoutFetching(athleteId: string): Promise<string> {
  rig.simulator.faults.add({ kind: 'hang', match: { path: /activities\/\d/, athleteId } });
  return rig.beginSync(`/api/admin/athletes/${athleteId}/sync`);
}

/** The activities that were requested, each once. */
async function askedFor(athleteId: string): Promise<string[]> {
  const rows = await rig.service.database.query<{ activity_id: string; version: number }>(
    'SELECT activity_id, version FROM activity_fetch_job WHERE athlete_id = $1',
    [athleteId],
  );
  expect(rows.filter(({ version }) => version !== 1)).toEqual([]);
  return rows.map((row) => row.activity_id).sort();
}

describe('a bulk sync of one athlete', () => {
  it('fetches what is unknown once, with reason manual, through the whole list', async () => {
    const athleteId = await rig.connectAthlete();
    const ids = rig.simulator.addHistory(athleteId, 210).map(({ id }) => id);
    const sync = await rig.syncAthlete(athleteId);
    expect(sync).toMatchObject({
      athleteId,
      state: 'finished',
      force: false,
      athletes: { total: 1, listed: 1, failed: 0 },
      listed: 210,
      queued: 210,
      fetched: 210,
      fetchesFailed: 0,
      total: 210,
      waitingUntil: null,
      expectedEnd: null,
      error: null,
    });
    expect(ids.map(rig.detailCalls)).toEqual(ids.map(() => 1));
    expect(await rig.untilJob(ids[0] as string, () => true)).toMatchObject({ reason: 'manual', outcome: 'stored' });

    expect(await rig.syncAthlete(athleteId)).toMatchObject({ state: 'finished', listed: 210, queued: 0, fetched: 0 });
    expect(ids.map(rig.detailCalls)).toEqual(ids.map(() => 1));
  });

  it('with force fetches each activity again, once', async () => {
    const athleteId = await rig.connectAthlete();
    const ids = rig.simulator.addHistory(athleteId, 30).map(({ id }) => id);
    await rig.syncAthlete(athleteId);
    expect(await rig.syncAthlete(athleteId, { force: true })).toMatchObject({ force: true, queued: 30, fetched: 30 });
    expect(ids.map(rig.detailCalls)).toEqual(ids.map(() => 2));
  });

  it('keeps to after and before, both exclusive, as ISO 8601 or epoch seconds', async () => {
    const athleteId = await rig.connectAthlete();
    const ids = ['01', '02', '03', '04', '05'].map(
      (day) => rig.simulator.addActivity(athleteId, { startDate: `2025-03-${day}T08:00:00Z` }).id,
    );
    const after = '2025-03-02T08:00:00Z';
    const before = Date.parse('2025-03-05T08:00:00Z') / 1000;
    expect(await rig.syncAthlete(athleteId, { after, before })).toMatchObject({
      after: '2025-03-02T08:00:00.000Z',
      before: '2025-03-05T08:00:00.000Z',
      listed: 2,
      fetched: 2,
    });
    expect(ids.map(rig.detailCalls)).toEqual([0, 0, 1, 1, 0]);
  });

  it('misses none and repeats none where more activities than a page holds start in one second', async () => {
    const athleteId = await rig.connectAthlete();
    const at = (startDate: string, count: number) =>
      Array.from({ length: count }, () => rig.simulator.addActivity(athleteId, { startDate, kind: 'manual' }).id);
    const ids = [
      ...at('2025-02-01T10:00:00Z', 5),
      ...at('2025-02-01T09:00:00Z', 430),
      ...at('2025-02-01T08:59:59Z', 3),
    ];
    const url = await beginWithoutFetching(athleteId);
    expect(await rig.untilSync(url, isListed)).toMatchObject({ listed: 438, queued: 438, total: 438 });
    expect(await askedFor(athleteId)).toEqual([...ids].sort());
    await rig.admin(`/api/admin/athletes/${athleteId}`, { method: 'DELETE' });
  });

  it('is not disturbed by activities that are added and removed while it reads', async () => {
    const athleteId = await rig.connectAthlete();
    const ids = rig.simulator.addHistory(athleteId, 420).map(({ id }) => id);
    const second = rig.simulator.faults.add({ kind: 'hold', match: { path: listPath, athleteId }, times: 1 });
    const url = await beginWithoutFetching(athleteId);
    await second.held;
    for (let n = 0; n < 30; n += 1) rig.simulator.addActivity(athleteId);
    for (const id of ids.slice(400)) rig.simulator.deleteActivity(id);
    second.release();
    await rig.untilSync(url, isListed);
    expect(await askedFor(athleteId)).toEqual(expect.arrayContaining(ids.slice(0, 400)));
    await rig.admin(`/api/admin/athletes/${athleteId}`, { method: 'DELETE' });
  });

  it('fails when the provider does not let the athlete’s list be read', async () => {
    const athleteId = await rig.connectAthlete();
    rig.simulator.faults.add({ kind: 'status', status: 403, match: { path: listPath, athleteId } });
    const sync = await rig.syncAthlete(athleteId);
    expect(sync).toMatchObject({ state: 'failed', athletes: { total: 1, listed: 0, failed: 1 } });
    expect(sync.error).toContain('HTTP 403');
  });

  it('retries a page after a failure, and gives up after the sixth in a row', async () => {
    const athleteId = await rig.connectAthlete();
    rig.simulator.addHistory(athleteId, 2);
    rig.simulator.faults.add({ kind: 'status', status: 500, match: { path: listPath, athleteId }, times: 5 });
    expect(await rig.syncAthlete(athleteId)).toMatchObject({ state: 'finished', fetched: 2 });
    rig.simulator.faults.add({ kind: 'garbage', match: { path: listPath, athleteId } });
    expect(await rig.syncAthlete(athleteId)).toMatchObject({ state: 'failed' });
  });

  it('counts what could not be fetched', async () => {
    const athleteId = await rig.connectAthlete();
    const [gone] = rig.simulator.addHistory(athleteId, 3);
    rig.simulator.faults.add({ kind: 'status', status: 404, match: { activityId: gone?.id as string } });
    expect(await rig.syncAthlete(athleteId)).toMatchObject({
      state: 'finished',
      queued: 3,
      fetched: 2,
      fetchesFailed: 1,
    });
  });

  it.each([
    ['lists are read', listPath],
    ['activities are fetched', /activities\/\d/],
  ])('is removed, with all its records, when the athlete is erased while %s', async (_, path) => {
    const athleteId = await rig.connectAthlete();
    rig.simulator.addHistory(athleteId, 5);
    const hold = rig.simulator.faults.add({ kind: 'hold', match: { path, athleteId } });
    const url = await rig.beginSync(`/api/admin/athletes/${athleteId}/sync`);
    await hold.held;
    await rig.admin(`/api/admin/athletes/${athleteId}`, { method: 'DELETE' });
    hold.release();
    expect((await rig.admin(url)).status).toBe(404);
    await rig.simulator.waitForCall((call) => call.athleteId === athleteId && path.test(call.path));
    const busy = (worker: string) => metric(rig.service.url, `activity_sync_workers_busy{worker="${worker}"}`);
    for (const worker of ['list', 'fetch'])
      await until(
        async () => ((await busy(worker)) ?? 0) === 0,
        `the end of what the ${worker} worker did with the answers`,
      );
    for (const table of ['list_walk', 'list_visit', 'sync_item', 'athlete_schedule']) {
      const rows = await rig.service.database.query(`SELECT FROM ${table} WHERE athlete_id = $1`, [athleteId]);
      expect(rows).toHaveLength(0);
    }
  });
});

describe('a bulk sync of all athletes', () => {
  it('visits every healthy athlete, and continues without one who must reconnect', async () => {
    const [good, refused] = [await rig.connectAthlete(), await rig.connectAthlete()];
    const ids = rig.simulator.addHistory(good, 4).map(({ id }) => id);
    rig.simulator.faults.add({ kind: 'status', status: 403, match: { path: listPath, athleteId: refused } });
    const sync = await rig.untilSync(await rig.beginSync('/api/admin/sync'), hasEnded);
    expect(sync).toMatchObject({ athleteId: null, state: 'finished', athletes: { failed: 1 } });
    expect(sync.athletes.listed).toBe(sync.athletes.total - 1);
    expect(sync.error).toContain(refused);
    expect(ids.map(rig.detailCalls)).toEqual(ids.map(() => 1));

    await rig.admin(`/api/admin/athletes/${refused}`, { method: 'DELETE' });
    expect((await rig.untilSync(`/api/admin/syncs/${sync.id}`, hasEnded)).error).toBeNull();
  });
});

describe('the sync endpoints', () => {
  it('refuse an athlete who is not connected, or must reconnect first', async () => {
    expect((await rig.admin('/api/admin/athletes/999999/sync', { method: 'POST' })).status).toBe(404);
    const athleteId = await rig.connectAthlete();
    await rig.service.database.query(`UPDATE athlete SET state = 'reconnect' WHERE athlete_id = $1`, [athleteId]);
    const answer = await rig.admin(`/api/admin/athletes/${athleteId}/sync`, { method: 'POST' });
    expect(answer.status).toBe(409);
    expect(await answer.json()).toMatchObject({ detail: expect.stringContaining('reconnect') });
  });

  it.each([
    [{ after: 'yesterday' }, 'body.after'],
    [{ after: '2999-01-01' }, 'body.after'],
    [{ before: 12.5 }, 'body.before'],
    [{ after: 2000, before: 1000 }, 'body.before'],
    [{ force: 'yes' }, 'body.force'],
    [{ since: 1 }, 'body.since'],
  ])('name the bad field of %j', async (body, field) => {
    const answer = await rig.admin('/api/admin/sync', { method: 'POST', body: JSON.stringify(body) });
    expect(answer.status).toBe(400);
    expect(((await answer.json()) as { errors: { field: string }[] }).errors.map((one) => one.field)).toEqual([field]);
  });

  it('list syncs newest first, by pages; a read-only token can start none', async () => {
    const first = (await (await rig.admin('/api/admin/syncs?limit=3')).json()) as { syncs: Sync[]; nextCursor: string };
    expect(first.syncs).toHaveLength(3);
    const ids = first.syncs.map(({ id }) => Number(id));
    expect(ids).toEqual([...ids].sort((a, b) => b - a));
    const second = (await (
      await rig.admin(`/api/admin/syncs?limit=3&cursor=${first.nextCursor}`)
    ).json()) as typeof first;
    expect(Number(second.syncs[0]?.id)).toBeLessThan(ids[2] as number);
    const looker = { headers: { authorization: `Bearer ${READ_TOKEN}` } };
    expect((await fetch(`${rig.service.url}/api/admin/syncs`, looker)).status).toBe(200);
    expect((await fetch(`${rig.service.url}/api/admin/sync`, { method: 'POST', ...looker })).status).toBe(403);
    expect((await fetch(`${rig.service.url}/api/admin/syncs`)).status).toBe(401);
    expect((await rig.admin('/api/admin/syncs/424242')).status).toBe(404);
  });
});
