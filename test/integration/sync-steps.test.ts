import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { claimSyncStep, giveUpWalk, type PageStep, putOffWalk, SyncLostError } from '../../src/store/sync-steps.ts';
import { type ClockedRig, startClockedRig } from '../support/clocked-rig.ts';

const LEASE_MS = 1000;
let rig: ClockedRig;
beforeAll(async () => {
  rig = await startClockedRig({ SERVICE_ROLES: 'web' });
});
afterAll(() => rig.close());

describe('the next step of a sync', () => {
  it('whose list may be read later within this millisecond is waited for, by the time as the database has it', async () => {
    const athleteId = await rig.connectAthlete();
    await rig.admin(`/api/admin/athletes/${athleteId}/sync`, { method: 'POST', body: '{}' });
    await rig.service.database.query(`UPDATE manual_sync SET count_due_at = sync_now() + interval '1 hour'`);
    await rig.service.database.query(
      `UPDATE manual_sync_walk SET not_before = sync_now() + interval '900 microseconds'`,
    );

    expect(await claimSyncStep(rig.service.database, LEASE_MS)).toEqual({ waitMs: expect.any(Number) });
    await rig.advance(1);
    expect(await claimSyncStep(rig.service.database, LEASE_MS)).toMatchObject({ step: { kind: 'page', athleteId } });
  }, 10_000);
});

describe('a page of a sync of all athletes that cannot be read', () => {
  it.each([
    ['given up', giveUpWalk],
    ['put off', putOffWalk],
  ])('notes nothing of an athlete who was erased meanwhile, when it is %s', async (_, end) => {
    const { database } = rig.service;
    await database.query(`UPDATE manual_sync SET count_due_at = NULL`); // those of other tests
    const athleteId = await rig.connectAthlete();
    await database.query(`UPDATE athlete SET state = 'scope' WHERE athlete_id <> $1`, [athleteId]);
    await rig.admin('/api/admin/sync', { method: 'POST', body: '{}' });
    const claim = (await claimSyncStep(database, LEASE_MS)) as { step: PageStep };
    expect(claim).toMatchObject({ step: { kind: 'page', athleteId } });
    expect((await rig.admin(`/api/admin/athletes/${athleteId}`, { method: 'DELETE' })).status).toBe(200);

    const error = `Athlete ${athleteId}: not connected.`;
    await expect(database.transaction((tx) => end(tx, claim.step, error, 0))).rejects.toThrow(SyncLostError);
    expect(await database.query('SELECT FROM manual_sync WHERE error IS NOT NULL OR athletes_failed > 0')).toEqual([]);
  });
});
