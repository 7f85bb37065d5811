import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { request } from '../support/requests.ts';
import { type JobRow, type Rig, startRig } from '../support/service.ts';
import { untilThumbnail } from '../support/thumbnails.ts';
import { until } from '../support/until.ts';

let rig: Rig;
let athleteId: string;

beforeAll(async () => {
  rig = await startRig({ env: { FETCH_BACKOFF_BASE_MS: '10' } });
  rig.simulator.subscribe(`${rig.service.url}/api/provider/webhook`);
});
afterAll(() => rig.close());
afterEach(() => rig.simulator.faults.clear());
const newAthlete = async () => {
  athleteId = await rig.connectAthlete();
};

const isDone = ({ status }: JobRow) => status === 'done';
const isFailed = ({ status }: JobRow) => status === 'failed';
const callsFor = (id: string) => rig.simulator.calls.filter((call) => call.activityId === id).length;
const count = async (table: string, column: string, id: string) =>
  (await rig.service.database.query(`SELECT FROM ${table} WHERE ${column} = $1`, [id])).length;
const storedActivity = async () => {
  const { id } = await rig.simulator.createActivityAndNotify(athleteId);
  await rig.untilJob(id, isDone);
  await untilThumbnail(rig, id);
  return id;
};

describe('an activity that exists already', () => {
  beforeAll(newAthlete);

  it('is skipped unless force is set: done, outcome skipped, no call', async () => {
    const id = await storedActivity();
    await request(rig, id, athleteId, 'polling');
    expect(await rig.untilJob(id, ({ outcome }) => outcome === 'skipped')).toMatchObject({
      status: 'done',
      error: null,
    });
    expect(callsFor(id)).toBe(1);
    await request(rig, id, athleteId, 'manual', true);
    await rig.untilJob(id, ({ outcome }) => outcome === 'stored');
    expect(callsFor(id)).toBe(2);
  });
});

describe('a delete event', () => {
  beforeAll(newAthlete);

  it('removes activity and thumbnail and leaves a tombstone, once one call has confirmed it', async () => {
    const id = await storedActivity();
    const { used } = await rig.service.budget.read();
    const { body } = await rig.simulator.deleteActivityAndNotify(id);
    expect(JSON.parse(body)).toMatchObject({ status: 'accepted' });
    const job = await rig.untilJob(id, ({ outcome }) => outcome === 'deleted');
    expect(job).toMatchObject({ status: 'done', reason: 'webhook', error: null });
    expect(await count('activity', 'activity_id', id)).toBe(0);
    expect(await count('thumbnail', 'activity_id', id)).toBe(0);
    expect(await count('activity_tombstone', 'activity_id', id)).toBe(1);
    expect(callsFor(id)).toBe(2);
    expect((await rig.service.budget.read()).used).toBe(used + 1);
  });

  it('of an activity that was never stored, or of an unknown athlete, is done as well', async () => {
    await rig.simulator.deliver({ object_id: 77_000_001, owner_id: 77_000_000, aspect_type: 'delete' });
    expect(await rig.untilJob('77000001', isDone)).toMatchObject({ outcome: 'deleted' });
  });
});

describe('a deauthorisation', () => {
  beforeAll(newAthlete);

  it('makes no job, and erases tokens, activities, thumbnails, jobs and deliveries of that athlete alone', async () => {
    const other = await storedActivity();
    const otherAthlete = athleteId;
    await newAthlete();
    const id = await storedActivity();
    const open = rig.simulator.addActivity(athleteId).id;
    const held = rig.simulator.faults.add({ kind: 'hold', match: { activityId: open } });
    await rig.simulator.deliver({ object_id: open, owner_id: athleteId });
    await held.held;

    const { body, status } = await rig.simulator.deauthorizeAndNotify(athleteId);
    expect({ status, body: JSON.parse(body) }).toEqual({ status: 200, body: { status: 'accepted' } });
    held.release();
    await until(async () => (await count('athlete', 'athlete_id', athleteId)) === 0, 'the erasure');
    for (const table of ['athlete', 'activity', 'activity_fetch_job', 'athlete_schedule']) {
      expect(await count(table, 'athlete_id', athleteId)).toBe(0);
    }
    expect(await count('webhook_event', 'owner_id', athleteId)).toBe(0);
    expect(await count('thumbnail', 'activity_id', id)).toBe(0);
    const jobs = await rig.service.database.query(
      'SELECT name FROM pgboss.job WHERE singleton_key = ANY ($1::text[])',
      [[id, open]],
    );
    expect(jobs).toEqual([]);
    expect(await count('thumbnail', 'activity_id', other)).toBe(1);
    expect(await count('athlete', 'athlete_id', otherAthlete)).toBe(1);

    // The run that was under way has ended by the time a later one has: its result was not written.
    athleteId = otherAthlete;
    await storedActivity();
    expect(await count('activity', 'activity_id', open)).toBe(0);
  });

  it('of an unknown athlete is acknowledged', async () => {
    const event = { object_type: 'athlete', aspect_type: 'update', object_id: 5, owner_id: 5 };
    const { status, body } = await rig.simulator.deliver({ ...event, updates: { authorized: 'false' } });
    expect({ status, body: JSON.parse(body) }).toEqual({ status: 200, body: { status: 'accepted' } });
  });

  it('that is repeated after the athlete has reconnected changes nothing', async () => {
    await newAthlete();
    const id = await storedActivity();
    const event = { object_type: 'athlete', aspect_type: 'update', object_id: athleteId, owner_id: athleteId };
    const anHourAgo = Math.floor(Date.now() / 1000) - 3600;
    const { body } = await rig.simulator.deliver({ ...event, updates: { authorized: 'false' }, event_time: anHourAgo });
    expect(JSON.parse(body)).toEqual({ status: 'accepted' });
    await until(async () => (await count('webhook_event', 'result', 'refuted')) === 1, 'the refutation');
    expect(await count('activity', 'activity_id', id)).toBe(1);
  });

  it('is announced only by authorized "false": any other event of an athlete erases nothing', async () => {
    const event = { object_type: 'athlete', aspect_type: 'update', object_id: athleteId, owner_id: athleteId };
    const { status } = await rig.simulator.deliver({ ...event, updates: { authorized: 'true' } });
    expect(status).toBe(200);
    expect(await count('athlete', 'athlete_id', athleteId)).toBe(1);
  });
});

describe('an event of an unknown athlete', () => {
  it('becomes a job that fails for good with a clear error, without a call', async () => {
    const before = rig.simulator.calls.length;
    await rig.simulator.deliver({ object_id: 88_000_001, owner_id: 88_000_000 });
    expect(await rig.untilJob('88000001', isFailed)).toMatchObject({
      outcome: 'unknownAthlete',
      attempts: 0,
      error: 'Athlete 88000000 is not connected. Connect them, then retry the job.',
    });
    expect(rig.simulator.calls).toHaveLength(before);
  });

  it('is retried once the athlete has connected', async () => {
    await rig.simulator.deliver({ object_id: 88_000_011, owner_id: 88_000_010 });
    await rig.untilJob('88000011', isFailed);
    // The provider learns of the activity while the retry is under way.
    rig.simulator.faults.add({ kind: 'latency', latencyMs: 100, match: { activityId: 88_000_011 } });
    await rig.connectAthlete('Late', '88000010');
    rig.simulator.addActivity(88_000_010, { id: 88_000_011 });
    expect(await rig.untilJob('88000011', isDone)).toMatchObject({ outcome: 'stored' });
  });
});

describe('a 64-bit id', () => {
  it.each(['9007199254740993', '9223372036854775807'])('%s passes unharmed from webhook to view', async (id) => {
    await rig.connectAthlete('Large', id);
    rig.simulator.addActivity(id, { id });
    const { status } = await rig.simulator.deliver({ object_id: id, owner_id: id });
    expect(status).toBe(200);
    expect(await rig.untilJob(id, isDone)).toMatchObject({ activityId: id, athleteId: id, outcome: 'stored' });
    const [stored] = await rig.service.database.query(
      `SELECT activity_id, athlete_id, detail->>'id' AS detail_id FROM activity WHERE activity_id = $1`,
      [id],
    );
    expect(stored).toEqual({ activity_id: id, athlete_id: id, detail_id: id });
    await untilThumbnail(rig, id);
  });
});
