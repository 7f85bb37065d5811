import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { ask } from '../support/admin.ts';
import { request } from '../support/requests.ts';
import type { JobRow } from '../support/service.ts';
import { hasEnded, type Sync, type SyncRig, startSyncRig } from '../support/sync-rig.ts';
import { until } from '../support/until.ts';

const JOBS = '/api/admin/activity-jobs';
let rig: SyncRig;
beforeAll(async () => {
  // No process fetches until a test starts one.
  rig = await startSyncRig({ SERVICE_ROLES: 'web,polling', FETCH_TIMEOUT_MS: '60000' });
});
afterAll(() => rig.close());
afterEach(() => rig.simulator.faults.clear());

async function athleteWith(activities: number): Promise<{ athleteId: string; ids: string[] }> {
  const athleteId = await rig.connectAthlete();
  return { athleteId, ids: rig.simulator.addHistory(athleteId, activities).map(({ id }) => id) };
}

/** Begins a sync and waits until it has read the athlete's list. */
async function beginListed(athleteId: string, body: object = {}): Promise<Sync> {
  const url = await rig.beginSync(`/api/admin/athletes/${athleteId}/sync`, body);
  return rig.untilSync(url, (sync) => sync.total !== null || hasEnded(sync));
}

/** Cancels a sync, and waits until it has removed what it removes. */
async function cancel(sync: Sync): Promise<void> {
  expect((await ask(rig, 'POST', `${sync.url}/cancel`)).status).toBe(200);
  const query = 'SELECT FROM list_walk WHERE id = $1 AND check_due_at IS NULL';
  await until(async () => (await rig.service.database.query(query, [sync.id])).length > 0, 'the clearing of a sync');
}

/** Has the athlete's activities fetched while `work` runs. */
async function whileFetching<T>(work: () => Promise<T>): Promise<T> {
  const replica = await rig.startReplica({ SERVICE_ROLES: 'fetch' });
  try {
    return await work();
  } finally {
    await replica.stop(0);
  }
}

/** Has fetches begun and does `work` while they get no answer; then they are released. */
async function whileHeld(athleteId: string, work: (running: string[]) => Promise<void>): Promise<void> {
  const hold = rig.simulator.faults.add({ kind: 'hold', match: { path: /activities\/\d/, athleteId } });
  await whileFetching(async () => {
    await hold.held;
    await work((await jobsOf(athleteId)).filter(({ status }) => status === 'working').map((job) => job.activityId));
  });
  hold.remove();
  expect((await jobsOf(athleteId)).filter(({ status }) => status !== 'pending')).toEqual([]);
}

const jobsOf = (athleteId: string) =>
  rig.service.database.query<JobRow>('SELECT * FROM "ActivityFetchJob" WHERE "athleteId" = $1', [athleteId]);
const leftOf = async (athleteId: string) => (await jobsOf(athleteId)).map((job) => job.activityId).sort();

async function askByHand(activityId: string, athleteId: string, force: boolean): Promise<{ id: string }> {
  const body = { activityId, athleteId, reason: 'manual', force };
  const answer = await ask(rig, 'POST', JOBS, body);
  expect(answer.status).toBe(200);
  return answer.body;
}

describe('a sync of activities whose jobs are already waiting', () => {
  it('waits for them, and keeps them when the sync that requested them first is cancelled', async () => {
    const { athleteId, ids } = await athleteWith(30);
    const first = await beginListed(athleteId);
    const second = await beginListed(athleteId);
    expect(second).toMatchObject({ state: 'running', listed: 30, queued: 30, total: 30, fetched: 0 });
    expect(second.expectedEnd).not.toBeNull();
    const byHand = await askByHand(ids[20] as string, athleteId, true);

    await cancel(first);
    expect(await leftOf(athleteId)).toEqual([...ids].sort());
    const ended = await whileFetching(() => rig.untilSync(second.url, hasEnded));
    expect(ended).toMatchObject({ state: 'finished', queued: 30, fetched: 30, fetchesFailed: 0 });
    const { body } = await ask(rig, 'GET', `${JOBS}/${byHand.id}`);
    expect(body.job).toMatchObject({ outcome: 'stored', force: true });
    expect(ids.map(rig.detailCalls)).toEqual(ids.map(() => 1));
  });

  it('has each fetched once for both, including running ones', async () => {
    const { athleteId, ids } = await athleteWith(12);
    const first = await beginListed(athleteId);
    const hold = rig.simulator.faults.add({ kind: 'hold', match: { path: /activities\/\d/, athleteId } });
    await whileFetching(async () => {
      await hold.held;
      const second = await beginListed(athleteId);
      hold.release();
      for (const { url } of [first, second])
        expect(await rig.untilSync(url, hasEnded)).toMatchObject({ state: 'finished', queued: 12, fetched: 12 });
    });
    expect(ids.map(rig.detailCalls)).toEqual(ids.map(() => 1));
  });

  it.each([
    ['plain', 'first', {}],
    ['plain', 'second', {}],
    ['forced', 'first', { force: true }],
    ['forced', 'second', { force: true }],
  ])('a %s one: nothing is left once both are cancelled, the %s before the other', async (_, order, body) => {
    const { athleteId, ids } = await athleteWith(5);
    const first = await beginListed(athleteId);
    const second = await beginListed(athleteId, body);
    const [one, other] = order === 'first' ? [first, second] : [second, first];
    await cancel(one);
    expect(await leftOf(athleteId)).toEqual([...ids].sort());
    await cancel(other);
    expect(await leftOf(athleteId)).toEqual([]);
  });

  it('with force leaves a job alone, once cancelled, that an operator requested and that was already running', async () => {
    const { athleteId, ids } = await athleteWith(4);
    const byHand = ids[0] as string;
    await request(rig, byHand, athleteId, 'manual');
    let sync: Sync | undefined;
    await whileHeld(athleteId, async (running) => {
      expect(running).toEqual([byHand]);
      // The list is read with the fetch under way.
      sync = await beginListed(athleteId, { force: true });
    });
    await cancel(sync as Sync);
    expect(await leftOf(athleteId)).toEqual([byHand]);
  });
});

describe('what a cancelled sync requested', () => {
  it('stays if another requester wants it too, in whatever way', async () => {
    const { athleteId, ids } = await athleteWith(12);
    const sync = await beginListed(athleteId);
    const wanted: string[] = [];
    await whileHeld(athleteId, async ([running = '']) => {
      await askByHand(running, athleteId, false);
      wanted.push(running);
    });
    const [plain, forced, bulk, retried, polled, announced] = ids.filter((id) => !wanted.includes(id)) as [
      string,
      string,
      string,
      string,
      string,
      string,
    ];
    await askByHand(plain, athleteId, false);
    await askByHand(forced, athleteId, true);
    const forcedInBulk = await ask(rig, 'POST', `${JOBS}/force?status=pending&activityId=${bulk}`);
    expect(forcedInBulk.body).toEqual({ forced: 1 });
    const { id } = await rig.untilJob(retried, () => true);
    expect((await ask(rig, 'POST', `${JOBS}/${id}/retry`)).status).toBe(200);
    await request(rig, polled, athleteId, 'polling');
    const event = { object_type: 'activity', object_id: announced, aspect_type: 'create', owner_id: athleteId };
    await rig.post({ ...event, subscription_id: 1, event_time: 1_746_000_000 });

    await cancel(sync);
    expect(await leftOf(athleteId)).toEqual([...wanted, plain, forced, bulk, retried, polled, announced].sort());
  });
});
