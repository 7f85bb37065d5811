import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { ask } from '../support/admin.ts';
import { type JobRow, type Rig, startRig } from '../support/service.ts';

const SECRET = 'webhook-secret-of-the-tests';

let rig: Rig;
let athleteId: string;
const start = (secret?: string) => async () => {
  rig = await startRig({ env: { SERVICE_ROLES: 'web,fetch', ...(secret ? { PROVIDER_WEBHOOK_SECRET: secret } : {}) } });
  rig.simulator.settings.signingSecret = secret;
  rig.simulator.subscribe(`${rig.service.url}/api/provider/webhook`);
};
beforeEach(async () => {
  athleteId = await rig.connectAthlete();
});

const isDone = ({ status }: JobRow) => status === 'done';
const callsFor = (id: string) => rig.simulator.calls.filter((call) => call.activityId === id).length;
const storedActivity = async () => {
  const { id } = await rig.simulator.createActivityAndNotify(athleteId);
  await rig.untilJob(id, isDone);
  return id;
};
/** Delivers a deletion. @param aheadS how far its time is in the future */
const announceDeletion = async (id: string, aheadS = 0) => {
  const event_time = Math.floor(Date.now() / 1000) + aheadS;
  const { body } = await rig.simulator.deliver({
    object_id: id,
    owner_id: athleteId,
    aspect_type: 'delete',
    event_time,
  });
  return JSON.parse(body) as { status: string };
};
const stored = async (id: string) =>
  (await rig.service.database.query('SELECT name FROM activity WHERE activity_id = $1', [id]))[0];

describe('an unsigned deletion', () => {
  beforeAll(start());
  afterAll(() => rig.close());
  afterEach(() => rig.simulator.faults.clear());

  it('of a stored activity that the provider still has is refuted by one call, whose answer is stored', async () => {
    const id = await storedActivity();
    rig.simulator.updateActivity(id, { name: 'renamed since' });
    expect(await announceDeletion(id)).toMatchObject({ status: 'accepted' });
    const job = await rig.untilJob(id, ({ outcome }) => outcome === 'refuted');
    expect(job).toMatchObject({ status: 'done', attempts: 0, error: null });
    expect(await stored(id)).toEqual({ name: 'renamed since' });
    expect(callsFor(id)).toBe(2);
    const { events } = (await ask(rig, 'GET', '/api/admin/webhook-events?limit=1')).body;
    expect(events[0]).toMatchObject({ activityId: id, job: { status: 'done', outcome: 'refuted' } });
  });

  it('of a stored activity that the provider no longer has is confirmed by one call', async () => {
    const id = await storedActivity();
    rig.simulator.deleteActivity(id);
    await announceDeletion(id);
    await rig.untilJob(id, ({ outcome }) => outcome === 'deleted');
    expect(await stored(id)).toBeUndefined();
    expect(callsFor(id)).toBe(2);
  });

  it('whose confirmation fails is retried, and nothing is removed until then', async () => {
    const id = await storedActivity();
    rig.simulator.faults.add({ kind: 'status', status: 500, match: { activityId: id } });
    await announceDeletion(id);
    expect(await rig.untilJob(id, ({ attempts }) => attempts === 1)).toMatchObject({ status: 'pending' });
    expect(await stored(id)).toBeDefined();
  });

  it('of an activity that was never requested ends without a call', async () => {
    const { id } = rig.simulator.addActivity(athleteId);
    await announceDeletion(id);
    await rig.untilJob(id, ({ outcome }) => outcome === 'deleted');
    expect(callsFor(id)).toBe(0);
  });

  it('makes no other event out of date', async () => {
    const { id } = rig.simulator.addActivity(athleteId);
    const announce = async (aspect_type: 'create' | 'update', agoS: number) => {
      const event_time = Math.floor(Date.now() / 1000) - agoS;
      const { body } = await rig.simulator.deliver({ object_id: id, owner_id: athleteId, aspect_type, event_time });
      return JSON.parse(body) as { status: string };
    };
    await announce('create', 60);
    await rig.untilJob(id, isDone);
    await announceDeletion(id);
    await rig.untilJob(id, ({ outcome }) => outcome === 'refuted');
    expect(await announce('update', 30)).toMatchObject({ status: 'accepted' });
    await rig.untilJob(id, ({ outcome }) => outcome === 'stored');
  });

  it('dated more than an hour in the future is refuted without a job, and the ledger says so', async () => {
    const id = await storedActivity();
    expect(await announceDeletion(id, 3700)).toEqual({ status: 'refuted' });
    expect(await rig.untilJob(id, isDone)).toMatchObject({ outcome: 'stored' });
    expect(callsFor(id)).toBe(1);
    const ledger = await rig.service.database.query(
      `SELECT result FROM webhook_event WHERE object_id = $1 AND aspect_type = 'delete'`,
      [id],
    );
    expect(ledger).toEqual([{ result: 'refuted' }]);
  });
});

describe('a signed deletion', () => {
  beforeAll(start(SECRET));
  afterAll(() => rig.close());

  it('of a stored activity needs no call and no budget', async () => {
    const id = await storedActivity();
    const { used } = await rig.service.budget.read();
    await announceDeletion(id);
    await rig.untilJob(id, ({ outcome }) => outcome === 'deleted');
    expect(await stored(id)).toBeUndefined();
    expect(callsFor(id)).toBe(1);
    expect((await rig.service.budget.read()).used).toBe(used);
  });

  it('waits for neither an empty budget nor the cooldown', async () => {
    const id = await storedActivity();
    await rig.service.database.query(`UPDATE rate_budget SET blocked_until = now() + interval '1 hour'`);
    await rig.service.database.query(
      `UPDATE athlete_schedule SET cooldown_until = now() + interval '1 hour' WHERE athlete_id = $1`,
      [athleteId],
    );
    await announceDeletion(id);
    await rig.untilJob(id, ({ outcome }) => outcome === 'deleted');
    await rig.service.database.query(`UPDATE rate_budget SET blocked_until = '-infinity'`);
  });

  it('dated more than an hour in the future is refuted as well', async () => {
    const id = await storedActivity();
    expect(await announceDeletion(id, 3700)).toEqual({ status: 'refuted' });
    expect(await stored(id)).toBeDefined();
  });
});
