import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { Request } from 'express';
import { createAudit } from '../../src/http/audit.ts';
import { createSilentLogger } from '../../src/infra/logger.ts';
import { createSecretBox } from '../../src/infra/secret-box.ts';
import { eraseAthleteRows, lockForErasure } from '../../src/store/erasure.ts';
import { ask } from '../support/admin.ts';
import { ENCRYPTION_KEY, type Rig, startRig } from '../support/service.ts';
import { until } from '../support/until.ts';

let rig: Rig;
beforeAll(async () => {
  rig = await startRig();
  rig.simulator.subscribe(`${rig.service.url}/api/provider/webhook`);
});
afterAll(() => rig.close());

describe('DELETE /api/admin/athletes/{id}', () => {
  const rowsOf = async (id: string) => {
    const { database } = rig.service;
    const tables = [
      'athlete',
      'activity',
      'activity_fetch_job',
      'athlete_schedule',
      'activity_tombstone',
      'audit_entry',
    ];
    const counts = await Promise.all(
      tables.map((table) => database.query(`SELECT FROM ${table} WHERE athlete_id = $1`, [id])),
    );
    const events = await database.query('SELECT FROM webhook_event WHERE owner_id = $1', [id]);
    const named = await database.query(
      `SELECT FROM audit_entry WHERE target = $1 OR detail::text LIKE '%' || $1 || '%'`,
      [id],
    );
    return [...counts, events, named].reduce((sum, rows) => sum + rows.length, 0);
  };

  it('notifies the provider and erases everything, the audit’s details included', async () => {
    const owner = await rig.connectAthlete('Leaver');
    const { id } = await rig.simulator.createActivityAndNotify(owner);
    await rig.untilJob(id, (job) => job.status === 'done');
    await ask(rig, 'POST', '/api/admin/activity-jobs', { activityId: id, athleteId: owner, force: true });
    await ask(rig, 'POST', `/api/admin/activity-jobs/retry?status=failed&activityId=${id}`);
    const answer = await ask(rig, 'DELETE', `/api/admin/athletes/${owner}`);
    expect(answer).toMatchObject({ status: 200, body: { erased: true, providerTold: true } });
    expect(rig.simulator.calls.some((call) => call.path === '/oauth/deauthorize')).toBe(true);
    expect(await rowsOf(owner)).toBe(0);
    expect((await ask(rig, 'GET', `/api/admin/activities/${id}`)).status).toBe(404);
    expect((await ask(rig, 'DELETE', `/api/admin/athletes/${owner}`)).status).toBe(404);
    const { entries } = (await ask(rig, 'GET', '/api/admin/audit')).body;
    expect(entries).toContainEqual(
      expect.objectContaining({ action: 'DELETE /api/admin/athletes/:id', target: null, status: 200 }),
    );
  });

  it('leaves no details in the audit of a change that ends after it', async () => {
    const owner = await rig.connectAthlete('Leaver');
    const { database } = rig.service;
    const audit = createAudit(database, createSilentLogger());
    const request = { method: 'POST', params: {}, query: {} } as unknown as Request;
    const ending = await database.transaction(async (tx) => {
      const ended = audit.accompany({ who: 'admin' }, request, '/api/admin/activity-jobs', async () => {
        await lockForErasure(tx, owner);
        await eraseAthleteRows(tx, owner);
        return { status: 201, audit: { target: owner, athleteId: owner, detail: { athleteId: owner } } };
      });
      let isOver = false;
      void ended.then(() => {
        isOver = true;
      });
      const waits = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;
      await until(async () => isOver || (await database.query(waits)).length > 0, 'the end of the entry, or its wait');
      return { ended };
    });
    await ending.ended;
    expect(await rowsOf(owner)).toBe(0);
    expect((await ask(rig, 'GET', '/api/admin/audit?limit=1')).body.entries).toMatchObject([
      { action: 'POST /api/admin/activity-jobs', status: 201, target: null, detail: {} },
    ]);
  });

  it('erases also when the provider cannot be notified', async () => {
    const owner = await rig.connectAthlete('Unheard');
    rig.simulator.revoke(owner);
    const answer = await ask(rig, 'DELETE', `/api/admin/athletes/${owner}`);
    expect(answer).toMatchObject({ status: 200, body: { erased: true, providerTold: false } });
    expect(await rowsOf(owner)).toBe(0);
  });

  it.each([
    ['that was changed', `${createSecretBox([ENCRYPTION_KEY]).prefix}${'A'.repeat(60)}`],
    ['of a key that is gone', createSecretBox(['cd'.repeat(32)]).seal('token')],
  ])('erases also an athlete with a stored token %s, which cannot be revoked', async (_case, sealed) => {
    const owner = await rig.connectAthlete('Undecipherable');
    await rig.service.database.query('UPDATE athlete SET access_token = $2, refresh_token = $2 WHERE athlete_id = $1', [
      owner,
      sealed,
    ]);
    const answer = await ask(rig, 'DELETE', `/api/admin/athletes/${owner}`);
    expect(answer).toMatchObject({ status: 200, body: { erased: true, providerTold: false } });
    expect(await rowsOf(owner)).toBe(0);
  });
});
