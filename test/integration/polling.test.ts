import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import type { Service } from '../../src/compose.ts';
import type { ClockedRig } from '../support/clocked-rig.ts';
import { SWEPT, startPollingRig, stepsOf } from '../support/polling.ts';

const HOUR = 3_600_000;
const MINUTE = 60_000;
let rig: ClockedRig;

beforeAll(async () => {
  rig = await startPollingRig();
});
afterAll(() => rig.close());
afterEach(() => rig.simulator.faults.clear());

const { listCalls, sweep, untilDone, untilRow, untilSwept } = stepsOf(() => rig);
const detailCalls = (activityId: string) => rig.simulator.calls.filter((call) => call.activityId === activityId).length;

async function drift(service: Service = rig.service): Promise<Record<string, number>> {
  const { values } = await service.metrics.drift.get();
  const found: Record<string, number> = { missed: 0, changed: 0, vanished: 0 };
  for (const { labels, value } of values) found[String(labels.kind)] = value;
  return found;
}

/** What a sweep adds to the drift. */
async function driftOf(work: () => Promise<void>): Promise<Record<string, number>> {
  const before = await drift();
  await work();
  const after = await drift();
  return Object.fromEntries(Object.entries(after).map(([kind, count]) => [kind, count - (before[kind] ?? 0)]));
}

async function announce(id: string, athleteId: string, aspect: string, atMs: number): Promise<void> {
  const answer = await rig.post({
    object_type: 'activity',
    object_id: id,
    aspect_type: aspect,
    owner_id: athleteId,
    subscription_id: 1,
    event_time: Math.floor(atMs / 1000),
  });
  expect(answer.status).toBe(200);
}

/** An athlete whose whole history is stored already. */
async function athleteWithStored(count: number): Promise<{ athleteId: string; ids: string[] }> {
  const athleteId = await rig.connectAthlete();
  const ids = rig.simulator.addHistory(athleteId, count).map(({ id }) => id);
  await sweep();
  for (const id of ids) await untilDone(id);
  return { athleteId, ids };
}

describe('a polling sweep', () => {
  it('queues what is unknown with reason polling, through the whole history of a new athlete', async () => {
    const athleteId = await rig.connectAthlete();
    const history = rig.simulator.addHistory(athleteId, 260);
    const found = await driftOf(sweep);
    for (const { id } of history) {
      await untilDone(id);
      expect(await rig.untilJob(id, () => true)).toMatchObject({
        reason: 'polling',
        outcome: 'stored',
      });
    }
    expect(history.map(({ id }) => detailCalls(id))).toEqual(history.map(() => 1));
    expect(found).toEqual({ missed: 0, changed: 0, vanished: 0 }); // no webhook could have announced earlier activities
  });

  it('stops after 20 known in a row, with one call for the list', async () => {
    const { athleteId, ids } = await athleteWithStored(60);
    const calls = listCalls(athleteId).length;
    expect(await driftOf(sweep)).toEqual({ missed: 0, changed: 0, vanished: 0 });
    expect(listCalls(athleteId).length - calls).toBe(1);
    expect(ids.map(detailCalls)).toEqual(ids.map(() => 1));
  });

  it.each([
    [20, 1],
    [19, 2],
  ])('with an unknown one behind %d known in a row: pages requested: %d', async (known, pages) => {
    const { athleteId } = await athleteWithStored(60);
    const [last] = await rig.service.database.query<{ start_date: Date }>(
      'SELECT start_date FROM activity WHERE athlete_id = $1 ORDER BY start_date DESC OFFSET $2 LIMIT 1',
      [athleteId, known - 1],
    );
    const startDate = (last?.start_date.getTime() ?? Number.NaN) - HOUR; // one starts every twelve hours
    const unknown = rig.simulator.addActivity(athleteId, { startDate, elapsedSeconds: 600 });
    const calls = listCalls(athleteId).length;
    await sweep();
    expect(listCalls(athleteId).length - calls).toBe(pages);
    await untilDone(unknown.id);
  });

  it('finds what webhooks missed: new, changed and deleted activities, and counts them as drift', async () => {
    const { athleteId, ids } = await athleteWithStored(12);
    const [oldest, , third, , , changed] = ids as [string, string, string, string, string, string];
    const missed = rig.simulator.addActivity(athleteId, {
      startDate: rig.clock.now() - 30 * MINUTE,
      elapsedSeconds: 600,
    });
    rig.simulator.updateActivity(changed, { name: 'Renamed without a word' });
    rig.simulator.deleteActivity(third);
    rig.simulator.deleteActivity(oldest);

    expect(await driftOf(sweep)).toEqual({ missed: 1, changed: 1, vanished: 2 });
    await untilDone(missed.id, `v.status = 'done' AND v.reason = 'polling'`);
    await untilDone(changed, `v.status = 'done' AND v.force`);
    for (const id of [third, oldest]) await untilDone(id, `r.outcome = 'notFound'`);
    const stored = await rig.service.database.query(
      'SELECT activity_id, name FROM activity WHERE athlete_id = $1 ORDER BY start_date',
      [athleteId],
    );
    expect(stored.map((row) => row.activity_id)).toEqual([
      ...ids.filter((id) => id !== third && id !== oldest),
      missed.id,
    ]);
    expect(stored.find((row) => row.activity_id === changed)).toMatchObject({ name: 'Renamed without a word' });

    expect(await driftOf(sweep)).toEqual({ missed: 0, changed: 0, vanished: 0 });
  });

  it('does not count an activity as missed while its webhook may be under way, and fetches it once', async () => {
    const { athleteId } = await athleteWithStored(3);
    const ended = rig.clock.now() + 4 * HOUR - 30_000;
    const { id } = rig.simulator.addActivity(athleteId, { startDate: ended - 600_000, elapsedSeconds: 600 });
    expect(await driftOf(sweep)).toMatchObject({ missed: 0 });
    await untilDone(id);
    for (let delivery = 0; delivery < 3; delivery += 1) {
      await announce(id, athleteId, 'create', ended);
    }
    await untilDone(id, `v.status = 'done' AND v.reason = 'webhook'`);
    await sweep();
    expect(detailCalls(id)).toBe(1);
  });

  it('fetches once, not in every sweep, if list and detail disagree', async () => {
    const { ids } = await athleteWithStored(2);
    const id = ids[0] as string;
    const disagree = () =>
      rig.service.database.query(`UPDATE activity SET name = 'Another name' WHERE activity_id = $1`, [id]);
    await disagree();
    await sweep();
    await untilDone(id, `v.status = 'done' AND v.force`);
    expect(detailCalls(id)).toBe(2);
    await disagree();
    await sweep();
    await sweep();
    expect(detailCalls(id)).toBe(2);
    await sweep(7 * 24 * HOUR);
    await untilDone(id);
    expect(detailCalls(id)).toBe(3);
  });

  it('does not restore what a webhook deleted although the list still shows it', async () => {
    const { athleteId, ids } = await athleteWithStored(2);
    const id = ids[1] as string;
    const gone = rig.simulator.faults.add({ kind: 'status', status: 404, match: { activityId: id } });
    await announce(id, athleteId, 'delete', rig.clock.now());
    await untilDone(id, `r.outcome = 'deleted'`);
    gone.remove();
    await sweep();
    expect(detailCalls(id)).toBe(2); // the second one confirmed the deletion
    expect(await rig.untilJob(id, () => true)).toMatchObject({ outcome: 'deleted' });
  });
});

describe('an athlete who has just connected', () => {
  it('is polled at once, as background work: their history is queued with reason polling, long before the next sweep', async () => {
    const { id: athleteId } = rig.simulator.addAthlete({ name: 'Ada Runner' });
    const [activity] = rig.simulator.addHistory(athleteId, 3);
    const finishedAt = await lastSweep();
    await rig.connectAthlete(undefined, athleteId);
    await untilDone(activity?.id as string, `v.status = 'done' AND v.reason = 'polling'`);
    expect(listCalls(athleteId)).not.toHaveLength(0);
    expect(await lastSweep()).toEqual(finishedAt);
  });

  it('is visited before the remaining athletes of a running sweep', async () => {
    const first = await rig.connectAthlete();
    const { id: athleteId } = rig.simulator.addAthlete({ name: 'Bo Rider' });
    const waiting = await rig.connectAthlete();
    const held = rig.simulator.faults.add({ kind: 'hold', match: { path: /athlete\/activities/ }, times: 1 });
    rig.simulator.clearCalls();
    await rig.advance(4 * HOUR);
    const dueAt = rig.clock.now();
    await held.held;
    await rig.connectAthlete(undefined, athleteId);
    held.release();
    await untilSwept(dueAt);
    const listed = rig.simulator.calls.filter(({ path }) => path === '/api/v3/athlete/activities');
    expect(listed.slice(1).findIndex((call) => call.athleteId === athleteId)).toBe(0);
    expect(new Set(listed.map((call) => call.athleteId))).toEqual(new Set(rig.simulator.athletes.map(({ id }) => id)));
    expect([first, waiting].map((id) => listCalls(id).length)).toEqual([1, 1]);
  });

  it('is polled at once when it is not for the first time, too', async () => {
    const athleteId = await rig.connectAthlete();
    const calls = listCalls(athleteId).length;
    await rig.connectAthlete(undefined, athleteId);
    await untilRow(SWEPT);
    expect(listCalls(athleteId)).toHaveLength(calls + 1);
  });
});

const lastSweep = () => rig.service.database.query(`SELECT finished_at FROM list_walk WHERE kind = 'polling'`);
