import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { claimSyncStep } from '../../src/store/sync-steps.ts';
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
