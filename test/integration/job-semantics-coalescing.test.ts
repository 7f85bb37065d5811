import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { Service } from '../../src/compose.ts';
import { request } from '../support/requests.ts';
import { type JobRow, type Rig, startRig } from '../support/service.ts';

// Without workers every job stays pending; each test lets one worker run when it is time.
const SECRET = 'webhook-secret-of-the-tests';
let rig: Rig;
let athleteId: string;

beforeAll(async () => {
  // Deliveries are signed, so that deletions are believed; webhook-unsigned-deletions.test.ts has the others.
  rig = await startRig({ env: { SERVICE_ROLES: 'web', FETCH_BACKOFF_BASE_MS: '10', PROVIDER_WEBHOOK_SECRET: SECRET } });
  rig.simulator.settings.signingSecret = SECRET;
  rig.simulator.subscribe(`${rig.service.url}/api/provider/webhook`);
  athleteId = await rig.connectAthlete();
});
afterAll(() => rig.close());

let lastSecond = Math.floor(Date.now() / 1000) - 100_000;
const nextSecond = () => {
  lastSecond += 1;
  return lastSecond;
};
const newActivity = () => rig.simulator.addActivity(athleteId).id;
const deliver = async (id: string, aspect_type: 'create' | 'update' | 'delete', event_time = nextSecond()) => {
  const { body } = await rig.simulator.deliver({ object_id: id, owner_id: athleteId, aspect_type, event_time });
  return JSON.parse(body) as { status: string; jobId: string };
};
const jobOf = (id: string): Promise<JobRow> => rig.untilJob(id, () => true);
const callsFor = (id: string) => rig.simulator.calls.filter((call) => call.activityId === id).length;
const withWorker = async (work: (worker: Service) => Promise<void>) => {
  const worker = await rig.startReplica({ SERVICE_ROLES: 'fetch,thumbnail' });
  try {
    await work(worker);
  } finally {
    await worker.stop(1000);
  }
};
const isDone = (job: JobRow) => job.status === 'done';

describe('a notification while the job is pending', () => {
  it('causes no second job and no second fetch', async () => {
    const id = newActivity();
    const first = await deliver(id, 'create');
    expect(await deliver(id, 'update')).toEqual(first);
    expect(await deliver(id, 'update')).toEqual(first);
    await withWorker(async () => {
      await rig.untilJob(id, isDone);
    });
    expect(callsFor(id)).toBe(1);
  });

  it.each([
    [['polling', 'manual'], 'manual'],
    [['manual', 'polling'], 'manual'],
    [['polling', 'webhook'], 'webhook'],
    [['webhook', 'manual'], 'webhook'],
    [['webhook', 'polling'], 'webhook'],
  ] as const)('the strongest request wins: %s is %s', async (reasons, strongest) => {
    const id = newActivity();
    for (const reason of reasons) {
      if (reason === 'webhook') await deliver(id, 'create');
      else await request(rig, id, athleteId, reason);
    }
    expect(await jobOf(id)).toMatchObject({ reason: strongest, status: 'pending', attempts: 0 });
  });

  it('force once set stays set', async () => {
    const id = newActivity();
    await request(rig, id, athleteId, 'manual', true);
    await request(rig, id, athleteId, 'manual', false);
    await deliver(id, 'create');
    expect(await jobOf(id)).toMatchObject({ force: true, reason: 'webhook' });
  });

  it('an update implies force, a creation does not', async () => {
    const [created, updated] = [newActivity(), newActivity()];
    await deliver(created, 'create');
    await deliver(updated, 'update');
    expect((await jobOf(created)).force).toBe(false);
    expect((await jobOf(updated)).force).toBe(true);
  });

  it.each([
    ['create then delete', ['create', 'delete'], 'deleted', 0],
    ['update then delete', ['update', 'delete'], 'deleted', 0],
    ['delete then create', ['delete', 'create'], 'stored', 1],
  ] as const)('the newest event decides: %s', async (_case, aspects, outcome, calls) => {
    const id = newActivity();
    for (const aspect of aspects) await deliver(id, aspect);
    await withWorker(async () => {
      expect(await rig.untilJob(id, isDone)).toMatchObject({ outcome });
    });
    expect(callsFor(id)).toBe(calls);
  });

  it('an event older than the newest known one changes nothing', async () => {
    const id = newActivity();
    const [older, newer] = [nextSecond(), nextSecond()];
    await deliver(id, 'delete', newer);
    expect(await deliver(id, 'update', older)).toMatchObject({ status: 'stale' });
    expect(await jobOf(id)).toMatchObject({ force: false });
    await withWorker(async () => {
      expect(await rig.untilJob(id, isDone)).toMatchObject({ outcome: 'deleted' });
    });
    expect(await deliver(id, 'create', older)).toMatchObject({ status: 'stale' });
    expect(await jobOf(id)).toMatchObject({ status: 'done', outcome: 'deleted' });
  });

  it.each([
    ['the first one heard', []],
    ['a later one', ['create']],
  ] as const)('an event far in the future makes no later one stale: %s', async (_case, before) => {
    const id = newActivity();
    const now = Math.floor(Date.now() / 1000);
    for (const aspect of before) await deliver(id, aspect, now);
    const farAhead = 32_000_000_000; // in the year 2984
    expect(await deliver(id, 'update', farAhead)).toMatchObject({ status: 'accepted' });
    expect(await deliver(id, 'update', farAhead)).toMatchObject({ status: 'duplicate' });
    expect(await deliver(id, 'delete', now - 60)).toMatchObject({ status: 'stale' });
    expect(await deliver(id, 'update', now + 60)).toMatchObject({ status: 'accepted' });
    expect(await deliver(id, 'delete', now + 61)).toMatchObject({ status: 'accepted' });
    await withWorker(async () => {
      expect(await rig.untilJob(id, isDone)).toMatchObject({ outcome: 'deleted' });
    });
  });

  it('an exact repeat is acknowledged and counted, and changes nothing', async () => {
    const id = newActivity();
    const at = nextSecond();
    const first = await deliver(id, 'create', at);
    const before = await jobOf(id);
    expect(await deliver(id, 'create', at)).toEqual({ ...first, status: 'duplicate' });
    expect(await deliver(id, 'create', at)).toEqual({ ...first, status: 'duplicate' });
    expect(await jobOf(id)).toEqual(before);
    const ledger = await rig.service.database.query(
      'SELECT deliveries, result FROM webhook_event WHERE object_id = $1',
      [id],
    );
    expect(ledger).toEqual([{ deliveries: 3, result: 'accepted' }]);
  });

  it('a deletion does not wait for a backoff', async () => {
    const id = newActivity();
    await deliver(id, 'create');
    rig.simulator.faults.add({ kind: 'status', status: 500, match: { activityId: id } });
    const slow = await rig.startReplica({ SERVICE_ROLES: 'fetch', FETCH_BACKOFF_BASE_MS: '3600000' });
    try {
      await rig.untilJob(id, ({ attempts, status }) => attempts === 1 && status === 'pending');
      await deliver(id, 'delete');
      expect(await rig.untilJob(id, isDone)).toMatchObject({ outcome: 'deleted' });
    } finally {
      await slow.stop(1000);
      rig.simulator.faults.clear();
    }
  });
});

describe('a notification while the job is working', () => {
  const whileWorking = async (id: string, during: () => Promise<unknown>, fits: (job: JobRow) => boolean) => {
    const held = rig.simulator.faults.add({ kind: 'hold', match: { activityId: id }, times: 1 });
    await withWorker(async () => {
      await held.held;
      expect(await jobOf(id)).toMatchObject({ status: 'working' });
      await during();
      held.release();
      await rig.untilJob(id, fits);
    });
    rig.simulator.faults.clear();
  };

  it('is followed by exactly one more run, however many came, which stores what is new', async () => {
    const id = newActivity();
    const { jobId } = await deliver(id, 'create');
    await whileWorking(
      id,
      async () => {
        rig.simulator.updateActivity(id, { name: 'changed during the run' });
        for (let n = 0; n < 3; n += 1) expect(await deliver(id, 'update')).toEqual({ status: 'accepted', jobId });
      },
      (job) => isDone(job) && callsFor(id) === 2,
    );
    const [activity] = await rig.service.database.query('SELECT name FROM activity WHERE activity_id = $1', [id]);
    expect(activity).toEqual({ name: 'changed during the run' });
    await withWorker(async () => {
      const another = newActivity();
      await deliver(another, 'create');
      await rig.untilJob(another, isDone);
    });
    expect(callsFor(id)).toBe(2);
  });

  it('a repeat of the event that is being handled causes no further run', async () => {
    const id = newActivity();
    const at = nextSecond();
    await deliver(id, 'create', at);
    await whileWorking(id, () => deliver(id, 'create', at), isDone);
    expect(callsFor(id)).toBe(1);
  });

  it('polling that sees the same activity joins the run', async () => {
    const id = newActivity();
    await deliver(id, 'create');
    await whileWorking(
      id,
      async () => expect(await request(rig, id, athleteId, 'polling')).toMatchObject({ result: 'joined' }),
      isDone,
    );
    expect(callsFor(id)).toBe(1);
  });

  it('a deletion beats the slower fetch: nothing is left of the activity', async () => {
    const id = newActivity();
    await deliver(id, 'create');
    await whileWorking(
      id,
      () => deliver(id, 'delete'),
      ({ outcome }) => outcome === 'deleted',
    );
    expect(await rig.service.database.query('SELECT FROM activity WHERE activity_id = $1', [id])).toEqual([]);
    expect(callsFor(id)).toBe(1);
  });

  it('is not lost when the running attempt was the last one', async () => {
    const id = newActivity();
    await deliver(id, 'create');
    const match = { activityId: id };
    rig.simulator.faults.add({ kind: 'status', status: 500, match, times: 5 });
    rig.simulator.faults.add({ kind: 'status', status: 500, latencyMs: 300, match, times: 1 });
    await withWorker(async () => {
      const sixth = () => callsFor(id) === 6;
      await rig.simulator.waitForArrival((call) => call.activityId === id && sixth());
      await deliver(id, 'update');
      expect(await rig.untilJob(id, isDone)).toMatchObject({ outcome: 'stored', attempts: 0 });
    });
    expect(callsFor(id)).toBe(7);
  });
});
