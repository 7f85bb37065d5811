import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { type ClockedRig, startClockedRig } from '../support/clocked-rig.ts';

let rig: ClockedRig;
let athleteId: string;

beforeAll(async () => {
  rig = await startClockedRig();
  rig.simulator.subscribe(`${rig.service.url}/api/provider/webhook`);
  athleteId = await rig.connectAthlete();
});
afterAll(() => rig.close());
afterEach(() => rig.simulator.faults.clear());

const MINUTE = 60_000;
const callsFor = (activityId: string) => rig.simulator.calls.filter((call) => call.activityId === activityId).length;
const announce = (id: string, event = {}) => rig.simulator.deliver({ object_id: id, owner_id: athleteId, ...event });
const attemptsOf = (jobId: string) =>
  rig.service.database.query('SELECT result, error FROM fetch_attempt WHERE job_id = $1 ORDER BY id', [jobId]);

describe('a network error, HTTP 5xx, a timeout or an unreadable body', () => {
  it('retries after 30 s, 60 s, 2 m, 4 m and 8 m, and the failure after the last retry is final', async () => {
    const { id } = rig.simulator.addActivity(athleteId);
    rig.simulator.faults.add({ kind: 'status', status: 503, match: { activityId: id } });
    await announce(id);

    for (const [index, delayMs] of [30_000, 60_000, 2 * MINUTE, 4 * MINUTE, 8 * MINUTE].entries()) {
      const waiting = await rig.untilJob(id, ({ attempts, status }) => attempts === index + 1 && status === 'pending');
      expect(waiting.error).toContain('HTTP 503');
      const waitMs = rig.msUntil(waiting.nextRunAt);
      expect(waitMs).toBeGreaterThanOrEqual(delayMs);
      expect(waitMs).toBeLessThanOrEqual(delayMs * 1.05);

      await rig.advance(delayMs - 1000); // not a second too early
      expect(await rig.untilJob(id, () => true)).toMatchObject({ status: 'pending', attempts: index + 1 });
      expect(callsFor(id)).toBe(index + 1);
      await rig.advance(waitMs - (delayMs - 1000));
    }

    const ended = await rig.untilJob(id, ({ status }) => status === 'failed');
    expect(ended).toMatchObject({ attempts: 5, maxAttempts: 5, outcome: 'exhausted' });
    expect(ended.error).toContain('HTTP 503');
    expect(callsFor(id)).toBe(6);
    await rig.advance(60 * MINUTE);
    expect(await rig.untilJob(id, () => true)).toMatchObject({ status: 'failed', attempts: 5 });
    expect(callsFor(id)).toBe(6);
  });

  it('keeps the last error, also once a later attempt has succeeded in the list of attempts', async () => {
    const { id } = rig.simulator.addActivity(athleteId);
    rig.simulator.faults.add({ kind: 'cut', match: { activityId: id }, times: 1 });
    await announce(id);
    const waiting = await rig.untilJob(id, ({ attempts, status }) => attempts === 1 && status === 'pending');
    await rig.advance(rig.msUntil(waiting.nextRunAt) + 1);
    const done = await rig.untilJob(id, ({ status }) => status === 'done');
    expect(done).toMatchObject({ attempts: 1, outcome: 'stored', error: expect.stringContaining('ECONNRESET') });
    expect(await attemptsOf(done.id)).toEqual([
      { result: 'retry', error: done.error },
      { result: 'done', error: null },
    ]);
  });

  it('is over for an activity that is notified again: attempts 0, the same id', async () => {
    const { id } = rig.simulator.addActivity(athleteId);
    const { database } = rig.service;
    const fault = rig.simulator.faults.add({ kind: 'status', status: 404, match: { activityId: id } });
    await announce(id);
    const failed = await rig.untilJob(id, ({ status }) => status === 'failed');
    fault.remove();
    await rig.advance(2000);
    await announce(id, { aspect_type: 'update' });
    const done = await rig.untilJob(id, ({ outcome }) => outcome === 'stored');
    expect(done).toMatchObject({ id: failed.id, attempts: 0, createdAt: failed.createdAt });
    expect(await database.query('SELECT FROM activity_fetch_job WHERE activity_id = $1', [id])).toHaveLength(1);
  });
});

describe('what never counts as an attempt', () => {
  it('a 429: the job waits until Retry-After, with its reason and no attempt', async () => {
    const { id } = rig.simulator.addActivity(athleteId);
    rig.simulator.faults.add({ kind: 'retryAfter429', retryAfter: 90, match: { activityId: id }, times: 1 });
    await announce(id);
    const waiting = await rig.untilJob(id, ({ error }) => error !== null);
    expect(waiting).toMatchObject({ status: 'pending', attempts: 0, error: expect.stringContaining('HTTP 429') });
    expect(rig.msUntil(waiting.nextRunAt)).toBe(90_000);
    await rig.advance(89_000);
    expect(callsFor(id)).toBe(1);
    await rig.advance(1000);
    const done = await rig.untilJob(id, ({ status }) => status === 'done');
    expect(done.attempts).toBe(0);
    expect(await attemptsOf(done.id)).toEqual([
      { result: 'put_back', error: expect.stringContaining('429') },
      { result: 'done', error: null },
    ]);
  });

  it('a 429 between failures: the attempts so far stay, and five retries are left in all', async () => {
    const { id } = rig.simulator.addActivity(athleteId);
    const match = { activityId: id };
    for (const status of [500, 429, 500, 500, 429, 500, 500, 500]) {
      rig.simulator.faults.add({
        kind: 'status',
        status,
        match,
        times: 1,
        ...(status === 429 ? { retryAfter: 1 } : {}),
      });
    }
    await announce(id);
    for (let call = 1; call <= 7; call += 1) {
      const waiting = await rig.untilJob(id, ({ status }) => status === 'pending' && callsFor(id) === call);
      await rig.advance(rig.msUntil(waiting.nextRunAt) + 1);
    }
    expect(await rig.untilJob(id, ({ status }) => status === 'failed')).toMatchObject({
      attempts: 5,
      outcome: 'exhausted',
    });
    expect(callsFor(id)).toBe(8);
  });
});

describe('a job that has stayed in working for more than 5 minutes', () => {
  const supersededRuns = async () => {
    const { values } = await rig.service.metrics.jobsFinished.get();
    return values.reduce((sum, { labels, value }) => sum + (labels.result === 'superseded' ? value : 0), 0);
  };
  const untilSuperseded = async (runs: number) => {
    while ((await supersededRuns()) < runs) await new Promise((resolve) => setImmediate(resolve));
  };

  it('is reclaimed as a counted attempt, and its late result is discarded', async () => {
    const { id } = rig.simulator.addActivity(athleteId, { name: 'as the slow answer has it' });
    const held = rig.simulator.faults.add({ kind: 'hold', match: { activityId: id }, times: 1 });
    await announce(id);
    await held.held;
    rig.simulator.updateActivity(id, { name: 'as it is now' });

    await rig.advance(5 * MINUTE);
    expect(await rig.untilJob(id, () => true)).toMatchObject({ status: 'working', attempts: 0 });
    await rig.advance(30_000); // the next look for stale jobs
    await rig.untilJob(id, ({ attempts }) => attempts === 1);
    expect(
      await rig.service.database.query(
        'SELECT error FROM fetch_attempt WHERE job_id = (SELECT id FROM activity_fetch_job WHERE activity_id = $1)',
        [id],
      ),
    ).toEqual([{ error: expect.stringContaining('reclaimed as stale') }]);

    const before = await supersededRuns();
    held.release();
    await untilSuperseded(before + 1);

    expect(await rig.untilJob(id, ({ status }) => status === 'done')).toMatchObject({ attempts: 1, outcome: 'stored' });
    const [activity] = await rig.service.database.query('SELECT name FROM activity WHERE activity_id = $1', [id]);
    expect(activity).toEqual({ name: 'as it is now' });
  });

  it('keeps what another run has stored, when the late result comes after its end', async () => {
    const { id } = rig.simulator.addActivity(athleteId, { name: 'as the slow answer has it' });
    const held = rig.simulator.faults.add({ kind: 'hold', match: { activityId: id }, times: 1 });
    await announce(id);
    await held.held;
    rig.simulator.updateActivity(id, { name: 'as it is now' });
    await rig.advance(5 * MINUTE + 30_000);
    const done = await rig.untilJob(id, ({ status }) => status === 'done');
    expect(done).toMatchObject({ attempts: 1, outcome: 'stored' });

    const before = await supersededRuns();
    held.release();
    await untilSuperseded(before + 1);
    expect(await rig.untilJob(id, () => true)).toEqual(done);
    const [activity] = await rig.service.database.query('SELECT name FROM activity WHERE activity_id = $1', [id]);
    expect(activity).toEqual({ name: 'as it is now' });
  });
});
