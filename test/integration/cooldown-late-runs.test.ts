import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { type Rig, startRig } from '../support/service.ts';

const COOLDOWN_MS = 15_000;
let rig: Rig;

beforeAll(async () => {
  rig = await startRig({ env: { PROVIDER_ATHLETE_COOLDOWN: String(COOLDOWN_MS), FETCH_CONCURRENCY: '2' } });
  rig.simulator.subscribe(`${rig.service.url}/api/provider/webhook`);
});
afterAll(() => rig.close());

/** Delivers an event whose call the provider holds back. */
async function announceHeld(athleteId: string, id = rig.simulator.addActivity(athleteId).id) {
  const hold = rig.simulator.faults.add({ kind: 'hold', match: { activityId: id }, times: 1 });
  await rig.simulator.deliver({ object_id: id, owner_id: athleteId });
  return { id, hold };
}

/** When the athlete may be called again. */
async function keptUntil(athleteId: string): Promise<Date | undefined> {
  const [row] = await rig.service.database.query<{ cooldown_until: Date }>(
    'SELECT cooldown_until FROM athlete_schedule WHERE athlete_id = $1',
    [athleteId],
  );
  return row?.cooldown_until;
}

/** Ends the hold that a claim puts on its athlete, as time does when the run takes too long. */
async function outliveHold(athleteId: string): Promise<void> {
  await rig.service.database.query(
    `WITH over AS (
       UPDATE athlete_schedule SET cooldown_until = now() WHERE athlete_id = $1
     ) SELECT pg_notify('activity_sync', 'fetch')`,
    [athleteId],
  );
}

describe('a run that ends after the hold on its athlete is over', () => {
  it.each([
    ['stored', undefined],
    ['notFound', '404'],
  ])('with outcome %s does not shorten the cooldown of the call that came after it', async (outcome, activityId) => {
    const athleteId = await rig.connectAthlete();
    const late = await announceHeld(athleteId, activityId);
    await late.hold.held;
    const next = await announceHeld(athleteId);
    await outliveHold(athleteId);
    await next.hold.held;
    const kept = await keptUntil(athleteId);

    late.hold.release();
    await rig.untilJob(late.id, (job) => job.outcome === outcome);
    expect(await keptUntil(athleteId)).toEqual(kept);

    // The newer one sets it exactly.
    next.hold.release();
    await rig.untilJob(next.id, (job) => job.outcome === 'stored');
    expect((await keptUntil(athleteId))?.getTime()).toBeLessThan(kept?.getTime() ?? 0);
  });

  it('sets it when no call came after it', async () => {
    const athleteId = await rig.connectAthlete();
    const late = await announceHeld(athleteId);
    await late.hold.held;
    await outliveHold(athleteId);
    late.hold.release();
    await rig.untilJob(late.id, (job) => job.outcome === 'stored');
    const kept = await keptUntil(athleteId);
    expect(kept?.getTime()).toBeGreaterThan(Date.now() + COOLDOWN_MS / 2);
    expect(kept?.getTime()).toBeLessThanOrEqual(Date.now() + COOLDOWN_MS);
  });
});
