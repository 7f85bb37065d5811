import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import type { ClockedRig } from '../support/clocked-rig.ts';
import { startPollingRig, stepsOf } from '../support/polling.ts';

const HOUR = 3_600_000;
const MINUTE = 60_000;
let rig: ClockedRig;

beforeAll(async () => {
  rig = await startPollingRig();
});
afterAll(() => rig.close());
afterEach(() => rig.simulator.faults.clear());

const { listCalls, sweep, untilDone, untilRow, untilSwept } = stepsOf(() => rig);

describe('a polling sweep', () => {
  it('skips an athlete whose list fails, and comes back to them', async () => {
    const failing = await rig.connectAthlete();
    const other = await rig.connectAthlete();
    const [theirs] = rig.simulator.addHistory(other, 1);
    rig.simulator.faults.add({
      kind: 'status',
      status: 502,
      match: { path: /athlete\/activities/, athleteId: failing },
      times: 2,
    });
    const [late] = rig.simulator.addHistory(failing, 1);
    await rig.advance(4 * HOUR);
    const dueAt = rig.clock.now();
    await untilDone(theirs?.id as string);
    for (const failures of [1, 2]) {
      await untilRow('SELECT FROM list_visit WHERE athlete_id = $1 AND failures = $2', [failing, failures]);
      await rig.advance(2 * MINUTE);
    }
    await untilSwept(dueAt);
    await untilDone(late?.id as string);
    expect(
      listCalls(failing)
        .map(({ status }) => status)
        .slice(0, 4),
    ).toEqual([200, 502, 502, 200]); // the first one when they connected
  });

  it('does not show an athlete as needing to reconnect who connects while their list is refused', async () => {
    const athleteId = await rig.connectAthlete();
    const match = { path: /athlete\/activities/, athleteId };
    const held = rig.simulator.faults.add({ kind: 'hold', status: 403, match, times: 1 });
    await rig.advance(4 * HOUR);
    const dueAt = rig.clock.now();
    await held.held;
    await rig.advance(1000);
    await rig.connectAthlete('Test Athlete', athleteId);
    held.release();
    await untilRow('SELECT FROM list_visit WHERE athlete_id = $1 AND failures = 1', [athleteId]);
    await rig.advance(MINUTE);
    await untilSwept(dueAt);
    const [row] = await rig.service.database.query('SELECT state FROM athlete WHERE athlete_id = $1', [athleteId]);
    expect(row).toMatchObject({ state: 'healthy' });
    expect(listCalls(athleteId).map(({ status }) => status)).toEqual([200, 403, 200]);
  });

  it('shows an athlete as needing to reconnect whose token is refused twice', async () => {
    const athleteId = await rig.connectAthlete();
    rig.simulator.revoke(athleteId);
    await sweep();
    const [row] = await rig.service.database.query('SELECT state FROM athlete WHERE athlete_id = $1', [athleteId]);
    expect(row).toMatchObject({ state: 'reconnect' });
    const calls = listCalls(athleteId).length;
    await sweep();
    expect(listCalls(athleteId)).toHaveLength(calls);
  });

  it('shows an athlete whose list is refused for scope as such, says what to do, and makes no more calls', async () => {
    const athleteId = await rig.connectAthlete();
    rig.simulator.faults.add({ kind: 'status', status: 403, match: { path: /athlete\/activities/, athleteId } });
    await sweep();
    const [row] = await rig.service.database.query('SELECT state, state_detail FROM athlete WHERE athlete_id = $1', [
      athleteId,
    ]);
    expect(row).toEqual({
      state: 'scope',
      state_detail: expect.stringMatching(/HTTP 403.*Insufficient scope to list activities: reconnect the athlete/),
    });
    const calls = listCalls(athleteId).length;
    await sweep();
    expect(listCalls(athleteId)).toHaveLength(calls);
  });

  it('refreshes a rejected access token once and continues', async () => {
    const athleteId = await rig.connectAthlete();
    const [activity] = rig.simulator.addHistory(athleteId, 1);
    rig.simulator.invalidateAccessToken(athleteId);
    await sweep();
    await untilDone(activity?.id as string);
    expect(listCalls(athleteId).map(({ status }) => status)).toContain(200);
  });

  it('waits for the window rollover after a 429, and then continues where it was', async () => {
    const athleteId = await rig.connectAthlete();
    const [activity] = rig.simulator.addHistory(athleteId, 1);
    rig.simulator.faults.add({
      kind: 'retryAfter429',
      retryAfter: 600,
      match: { path: /athlete\/activities/ },
      times: 1,
    });
    await rig.advance(4 * HOUR);
    const dueAt = rig.clock.now();
    await rig.simulator.waitForCall(({ status, path }) => status === 429 && path.includes('athlete/activities'));
    await untilRow(`SELECT FROM list_walk WHERE kind = 'polling' AND not_before > sync_now()`);
    const calls = rig.simulator.calls.length;
    await rig.advance(5 * MINUTE);
    expect(rig.simulator.calls).toHaveLength(calls);
    await rig.advance(6 * MINUTE);
    await untilSwept(dueAt);
    await untilDone(activity?.id as string);
  });
});
