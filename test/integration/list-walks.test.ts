import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { Queryable } from '../../src/infra/database.ts';
import {
  claimWalkStep,
  endVisit,
  type PageStep,
  settlePage,
  snoozeVisit,
  WalkLostError,
} from '../../src/store/list-walks.ts';
import { type ClockedRig, startClockedRig } from '../support/clocked-rig.ts';

const OF_SYNCS = { sweepEveryMs: undefined, leaseMs: 1000 };
let rig: ClockedRig;
beforeAll(async () => {
  rig = await startClockedRig({ SERVICE_ROLES: 'web' });
});
afterAll(() => rig.close());

describe('the next step of a sync', () => {
  it('whose list may be read later within this millisecond is waited for, by the time as the database has it', async () => {
    const athleteId = await rig.connectAthlete();
    await rig.admin(`/api/admin/athletes/${athleteId}/sync`, { method: 'POST', body: '{}' });
    await rig.service.database.query(`UPDATE list_walk SET check_due_at = sync_now() + interval '1 hour'`);
    await rig.service.database.query(`UPDATE list_visit SET not_before = sync_now() + interval '900 microseconds'`);

    expect(await claimWalkStep(rig.service.database, OF_SYNCS)).toEqual({ waitMs: expect.any(Number) });
    await rig.advance(1);
    expect(await claimWalkStep(rig.service.database, OF_SYNCS)).toMatchObject({ step: { step: 'page', athleteId } });
  }, 10_000);
});

const giveUp = async (tx: Queryable, step: PageStep, error: string) => {
  await endVisit(tx, step);
  await settlePage(tx, step, { error, athletesFailed: 1 });
};
const snooze = async (tx: Queryable, step: PageStep, error: string) => {
  await snoozeVisit(tx, step, 0);
  await settlePage(tx, step, { error });
};

describe('a page of a sync of all athletes that cannot be read', () => {
  it.each([
    ['given up', giveUp],
    ['snoozed', snooze],
  ])('records nothing about an athlete who was erased in the meantime, when it is %s', async (_, end) => {
    const { database } = rig.service;
    await database.query(`UPDATE list_walk SET check_due_at = NULL`); // those of other tests
    const athleteId = await rig.connectAthlete();
    await database.query(`UPDATE athlete SET state = 'scope' WHERE athlete_id <> $1`, [athleteId]);
    await rig.admin('/api/admin/sync', { method: 'POST', body: '{}' });
    await database.query(`UPDATE list_walk SET check_due_at = 'infinity' WHERE check_due_at IS NOT NULL`);
    const claim = (await claimWalkStep(database, OF_SYNCS)) as { step: PageStep };
    expect(claim).toMatchObject({ step: { step: 'page', athleteId } });
    expect((await rig.admin(`/api/admin/athletes/${athleteId}`, { method: 'DELETE' })).status).toBe(200);

    const error = `Athlete ${athleteId}: not connected.`;
    await expect(database.transaction((tx) => end(tx, claim.step, error))).rejects.toThrow(WalkLostError);
    expect(await database.query('SELECT FROM list_walk WHERE error IS NOT NULL OR athletes_failed > 0')).toEqual([]);
  });
});
