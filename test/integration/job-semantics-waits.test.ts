import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { countWaits } from '../../src/store/job-waits.ts';
import { type ClockedRig, startClockedRig } from '../support/clocked-rig.ts';

let rig: ClockedRig;

const MINUTE = 60_000;
const callsFor = (activityId: string) => rig.simulator.calls.filter((call) => call.activityId === activityId).length;
const announce = (id: string, owner_id: string) => rig.simulator.deliver({ object_id: id, owner_id });
const start = async (env: Record<string, string>) => {
  rig = await startClockedRig(env);
  rig.simulator.subscribe(`${rig.service.url}/api/provider/webhook`);
};

describe('waiting for the budget', () => {
  beforeAll(() => start({ PROVIDER_RATE_LIMIT_CAPACITY: '2' }));
  afterAll(() => rig.close());

  it('is pending until the window rolls over, consumes no attempt and is no error', async () => {
    const athletes = await Promise.all([1, 2, 3].map((n) => rig.connectAthlete(`Athlete ${n}`)));
    const activities = athletes.map((athleteId) => ({ athleteId, id: rig.simulator.addActivity(athleteId).id }));
    for (const { id, athleteId } of activities) await announce(id, athleteId);
    const [first, second, third] = activities.map(({ id }) => id) as [string, string, string];
    await rig.untilJob(first, ({ status }) => status === 'done');
    await rig.untilJob(second, ({ status }) => status === 'done');

    const waiting = await rig.untilJob(third, () => true);
    expect(waiting).toMatchObject({ status: 'pending', attempts: 0, error: null });
    // 12:15:00, and the two seconds by which the provider's clock may be behind ours
    expect(waiting.nextRunAt).toEqual(new Date('2025-05-06T12:15:02Z'));
    await rig.advance(10 * MINUTE + 1000);
    expect((await countWaits(rig.service.database)).webhook).toMatchObject({ turn: 0, budget: 1 });
    expect((await countWaits(rig.service.database)).webhook.oldestDueS).toBeCloseTo(601, 0);
    expect(await rig.untilJob(third, () => true)).toMatchObject({ status: 'pending' });
    expect(callsFor(third)).toBe(0);
    await rig.advance(1000);
    expect(await rig.untilJob(third, ({ status }) => status === 'done')).toMatchObject({ attempts: 0 });
  });
});

describe('waiting for the athlete’s cooldown', () => {
  beforeAll(() => start({ PROVIDER_ATHLETE_COOLDOWN: '15000', FETCH_BACKOFF_BASE_MS: '1000' }));
  afterAll(() => rig.close());

  it('is pending for 15 s after the fetch before, consumes no attempt, and holds up no other athlete', async () => {
    const athleteId = await rig.connectAthlete();
    const other = await rig.connectAthlete();
    const [first, second] = rig.simulator.addHistory(athleteId, 2) as [{ id: string }, { id: string }];
    const elsewhere = rig.simulator.addActivity(other);
    await announce(first.id, athleteId);
    await rig.untilJob(first.id, ({ status }) => status === 'done');
    await announce(second.id, athleteId);
    await announce(elsewhere.id, other);
    await rig.untilJob(elsewhere.id, ({ status }) => status === 'done');

    const waiting = await rig.untilJob(second.id, () => true);
    expect(waiting).toMatchObject({ status: 'pending', attempts: 0, error: null });
    expect(rig.msUntil(waiting.nextRunAt)).toBeLessThanOrEqual(15_000);
    expect(rig.msUntil(waiting.nextRunAt)).toBeGreaterThan(14_900);
    await rig.advance(14_800);
    // Held back as intended: no job is late.
    expect((await countWaits(rig.service.database)).webhook).toMatchObject({ turn: 0, cooldown: 1, oldestDueS: 0 });
    expect(await rig.untilJob(second.id, () => true)).toMatchObject({ status: 'pending' });
    await rig.advance(200);
    expect(await rig.untilJob(second.id, ({ status }) => status === 'done')).toMatchObject({ attempts: 0 });
  });

  it('is no longer after a failed call', async () => {
    const athleteId = await rig.connectAthlete();
    const [first, second] = rig.simulator.addHistory(athleteId, 2) as [{ id: string }, { id: string }];
    rig.simulator.faults.add({ kind: 'status', status: 500, match: { activityId: first.id }, times: 1 });
    await announce(first.id, athleteId);
    await rig.untilJob(first.id, ({ status, attempts }) => status === 'pending' && attempts === 1);
    await announce(second.id, athleteId);
    const waiting = await rig.untilJob(second.id, () => true);
    expect(rig.msUntil(waiting.nextRunAt)).toBeLessThanOrEqual(15_000);
  });
});
