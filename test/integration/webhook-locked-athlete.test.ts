import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { Database } from '../../src/infra/database.ts';
import { openTestDatabase } from '../support/database.ts';
import { type Rig, startRig } from '../support/service.ts';

let rig: Rig;
/** Somebody else at the same database. */
let other: Database;

beforeAll(async () => {
  rig = await startRig({ env: { SERVICE_ROLES: 'web' } });
  rig.simulator.subscribe(`${rig.service.url}/api/provider/webhook`);
  other = openTestDatabase(rig.database.url);
});
afterAll(async () => {
  await other.close();
  await rig.close();
});

const eventOf = (owner_id: string) => ({
  object_type: 'activity',
  object_id: rig.simulator.addActivity(owner_id).id,
  aspect_type: 'create',
  owner_id,
  subscription_id: 1,
  event_time: 1_700_000_000,
});
const post = async (event: object) => (await rig.post(event)).status;

// So long a delivery waits for a lock.
const LOCK_TIMEOUT_MS = 700;

describe('an athlete whom somebody has locked and does not let go', () => {
  it('holds up no delivery of others; their own is answered 503, and accepted when it comes again', async () => {
    const [locked = '', free = ''] = [await rig.connectAthlete(), await rig.connectAthlete()];
    const events = [locked, free, free].map(eventOf);
    await other.transaction(async (tx) => {
      await tx.query('INSERT INTO athlete_schedule (athlete_id) VALUES ($1)', [locked]);
      expect(await Promise.all(events.map(post))).toEqual([503, 200, 200]);
    });
    expect(await Promise.all(events.map(post))).toEqual([200, 200, 200]);
  });

  it('is waited for together by all deliveries of theirs, not by one after the other', async () => {
    const [locked = '', free = ''] = [await rig.connectAthlete(), await rig.connectAthlete()];
    const events = [...Array(12).fill(locked), free, ...Array(12).fill(locked), free].map(eventOf);
    await other.transaction(async (tx) => {
      await tx.query('INSERT INTO athlete_schedule (athlete_id) VALUES ($1)', [locked]);
      const startedAt = performance.now();
      const statuses = await Promise.all(events.map(post));
      expect(performance.now() - startedAt).toBeLessThan((events.length / 2) * LOCK_TIMEOUT_MS);
      expect(statuses).toEqual(events.map(({ owner_id }) => (owner_id === free ? 200 : 503)));
    });
    expect(new Set(await Promise.all(events.map(post)))).toEqual(new Set([200]));
  });
});
