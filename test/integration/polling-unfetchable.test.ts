import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import type { Fault } from '../../src/simulator/faults.ts';
import type { ClockedRig } from '../support/clocked-rig.ts';
import { SWEPT, startPollingRig, stepsOf } from '../support/polling.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
let rig: ClockedRig;

beforeAll(async () => {
  rig = await startPollingRig({ FETCH_BACKOFF_BASE_MS: '10' });
});
afterAll(() => rig.close());
afterEach(() => rig.simulator.faults.clear());

const NOTHING_OPEN = 'SELECT WHERE NOT EXISTS (SELECT FROM activity_fetch_job WHERE outcome IS NULL)';
const SWEPT_SINCE = `${SWEPT} AND finished_at >= to_timestamp($1::float8 / 1000) AND EXISTS (${NOTHING_OPEN})`;

const { untilRow } = stepsOf(() => rig);

/** Lets time pass until the next sweep, and waits for it and for all that it queued. */
async function sweep(afterMs = 4 * HOUR): Promise<void> {
  await rig.advance(afterMs);
  await untilRow(SWEPT_SINCE, [rig.clock.now()]);
}

const detailCalls = (activityId: string) => rig.simulator.calls.filter((call) => call.activityId === activityId).length;
const listCalls = (athleteId: string) =>
  rig.simulator.calls.filter((call) => call.path === '/api/v3/athlete/activities' && call.athleteId === athleteId)
    .length;
const outcomeOf = async (activityId: string) => (await rig.untilJob(activityId, () => true)).outcome;

async function missed(): Promise<number> {
  const { values } = await rig.service.metrics.drift.get();
  return values.find(({ labels }) => labels.kind === 'missed')?.value ?? 0;
}

/** Has the provider answer so for the details of an activity. */
function answer(activityId: string, status: number) {
  const fault: Fault = { kind: 'status', status, match: { activityId } };
  return rig.simulator.faults.add(fault);
}

/** An athlete of whom all is stored. */
async function athleteWithStored(count: number): Promise<string> {
  const athleteId = await rig.connectAthlete();
  rig.simulator.addHistory(athleteId, count);
  await sweep();
  return athleteId;
}

/** Activities that end before the next sweep, newest last, and of which no webhook tells. */
function recordSilently(athleteId: string, count: number): string[] {
  return Array.from({ length: count }, (_, n) => {
    const startDate = rig.clock.now() + (n + 1) * 5 * MINUTE;
    return rig.simulator.addActivity(athleteId, { startDate, elapsedSeconds: 60 }).id;
  });
}

async function announce(id: string, athleteId: string): Promise<void> {
  const event = { object_type: 'activity', object_id: id, aspect_type: 'create', owner_id: athleteId };
  const eventTime = Math.floor(rig.clock.now() / 1000);
  expect((await rig.post({ ...event, subscription_id: 1, event_time: eventTime })).status).toBe(200);
}

describe('a listed activity that cannot be fetched', () => {
  it.each([
    [404, 'notFound', 1],
    [500, 'exhausted', 6],
  ])(
    'with answer %d is requested and counted as missed once, and again after seven days',
    async (status, outcome, calls) => {
      const athleteId = await athleteWithStored(40);
      const before = await missed();
      // In the middle of a page, where it would end each row of known ones.
      const [broken] = recordSilently(athleteId, 16) as [string];
      const fault = answer(broken, status);
      await sweep();
      expect(await outcomeOf(broken)).toBe(outcome);
      expect(await missed()).toBe(before + 16);
      for (let n = 0; n < 3; n += 1) {
        const lists = listCalls(athleteId);
        await sweep();
        expect(listCalls(athleteId) - lists).toBe(1);
      }
      expect(detailCalls(broken)).toBe(calls);

      await sweep(7 * DAY - 13 * HOUR);
      expect(detailCalls(broken)).toBe(calls);
      await sweep(4 * HOUR);
      expect(detailCalls(broken)).toBe(2 * calls);
      fault.remove();
      await sweep(7 * DAY);
      expect(await outcomeOf(broken)).toBe('stored');
      expect(await missed()).toBe(before + 16);
    },
  );

  it('is requested once by the next sweep if a webhook had announced it: an outage may be over', async () => {
    const athleteId = await athleteWithStored(3);
    const before = await missed();
    const [repaired, gone] = recordSilently(athleteId, 2) as [string, string];
    const outage = answer(repaired, 500);
    answer(gone, 404);
    for (const id of [repaired, gone]) await announce(id, athleteId);
    await untilRow(NOTHING_OPEN, []);
    expect([await outcomeOf(repaired), await outcomeOf(gone)]).toEqual(['exhausted', 'notFound']);
    outage.remove();
    for (let n = 0; n < 3; n += 1) await sweep();
    expect(await outcomeOf(repaired)).toBe('stored');
    expect(detailCalls(gone)).toBe(2);
    expect(await missed()).toBe(before);
  });

  it('is requested again by the next sweep if a sweep had removed it', async () => {
    const athleteId = await athleteWithStored(3);
    const [id] = recordSilently(athleteId, 1) as [string];
    await sweep();
    rig.simulator.updateActivity(id, { name: 'Renamed without a word' });
    const fault = answer(id, 404);
    await sweep();
    expect(await outcomeOf(id)).toBe('notFound');
    fault.remove();
    await sweep();
    expect(await outcomeOf(id)).toBe('stored');
  });

  it('is fetched as soon as the athlete reconnects, if access was refused', async () => {
    const athleteId = await athleteWithStored(3);
    const [id] = recordSilently(athleteId, 1) as [string];
    const fault = answer(id, 403);
    await sweep();
    expect(await outcomeOf(id)).toBe('forbidden');
    fault.remove();
    await rig.connectAthlete(undefined, athleteId);
    await untilRow(NOTHING_OPEN, []);
    expect(await outcomeOf(id)).toBe('stored');
  });
});
