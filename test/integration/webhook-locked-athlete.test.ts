import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { Database } from '../../src/infra/database.ts';
import { openTestDatabase } from '../support/database.ts';
import { type Rig, startRig } from '../support/service.ts';

let rig: Rig;
/** Another client of the same database. */
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

/** The provider gives up a delivery after so long. */
const PROVIDER_PATIENCE_MS = 2000;

describe('an athlete who is locked for long', () => {
  it('delays no delivery of others; their own is answered 503, and accepted when it is repeated', async () => {
    const [locked = '', free = ''] = [await rig.connectAthlete(), await rig.connectAthlete()];
    const events = [locked, free, free].map(eventOf);
    await other.transaction(async (tx) => {
      await tx.query('INSERT INTO athlete_schedule (athlete_id) VALUES ($1)', [locked]);
      expect(await Promise.all(events.map(post))).toEqual([503, 200, 200]);
    });
    expect(await Promise.all(events.map(post))).toEqual([200, 200, 200]);
  });

  it('has all deliveries of theirs, a hundred at once, fail together within the 2 s of the provider', async () => {
    const [locked = '', free = ''] = [await rig.connectAthlete(), await rig.connectAthlete()];
    const events = [...Array(49).fill(locked), free, ...Array(49).fill(locked), free].map(eventOf);
    await other.transaction(async (tx) => {
      await tx.query('INSERT INTO athlete_schedule (athlete_id) VALUES ($1)', [locked]);
      const startedAt = performance.now();
      const statuses = await Promise.all(events.map(post));
      expect(performance.now() - startedAt).toBeLessThan(PROVIDER_PATIENCE_MS);
      expect(statuses).toEqual(events.map(({ owner_id }) => (owner_id === free ? 200 : 503)));
    });
    expect(new Set(await Promise.all(events.map(post)))).toEqual(new Set([200]));
  });
});
