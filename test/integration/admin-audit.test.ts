import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { beginAuditEntry, endAuditEntry } from '../../src/store/audit.ts';
import { ask } from '../support/admin.ts';
import { ADMIN_TOKEN, type Rig, startRig } from '../support/service.ts';

let rig: Rig;

beforeAll(async () => {
  rig = await startRig({ env: { SERVICE_ROLES: 'web' } });
});
afterAll(() => rig.close());

const send = (method: string, path: string, headers: Record<string, string> = {}, body?: string) =>
  fetch(`${rig.service.url}${path}`, { method, headers, ...(body === undefined ? {} : { body }) });

describe('the audit', () => {
  it('records who changed what with which result, and never a secret', async () => {
    const newest = async (count: number) => (await ask(rig, 'GET', `/api/admin/audit?limit=${count}`)).body.entries;
    const { body: job } = await ask(rig, 'POST', '/api/admin/activity-jobs', { activityId: '9100', athleteId: '9' });
    await ask(rig, 'POST', '/api/admin/activity-jobs/999999/retry');
    await ask(rig, 'DELETE', '/api/admin/activity-jobs?status=failed&olderThan=5');
    await ask(rig, 'POST', '/api/admin/webhooks', {
      callbackUrl: 'http://127.0.0.1:1/hook',
      verifyToken: 'a-secret-of-ours',
    });
    await ask(rig, 'GET', '/api/admin/activity-jobs');
    await ask(rig, 'POST', '/api/admin/activity-jobs', { activityId: 'x' });
    expect(await newest(4)).toMatchObject([
      { who: 'admin', action: 'POST /api/admin/webhooks', target: null, status: 502 },
      {
        action: 'DELETE /api/admin/activity-jobs',
        detail: { status: 'failed', olderThan: '5', deleted: 0 },
        status: 200,
      },
      { action: 'POST /api/admin/activity-jobs/:id/retry', target: '999999', status: 404 },
      { action: 'POST /api/admin/activity-jobs', target: job.id, detail: { activityId: '9100' }, status: 201 },
    ]);
    expect(JSON.stringify(await newest(200))).not.toMatch(/a-secret-of-ours|admin-token/);
  });

  it('records whose list was requested, from when, and as which sync', async () => {
    const athleteId = await rig.connectAthlete();
    const { body: of } = await ask(rig, 'POST', `/api/admin/athletes/${athleteId}/sync`, { after: 1_735_689_600 });
    const { body: all } = await ask(rig, 'POST', '/api/admin/sync', {});
    expect((await ask(rig, 'GET', '/api/admin/audit?limit=2')).body.entries).toMatchObject([
      { action: 'POST /api/admin/sync', target: null, detail: { sync: all.id, force: false } },
      {
        action: 'POST /api/admin/athletes/:id/sync',
        target: athleteId,
        detail: { sync: of.id, after: '2025-01-01T00:00:00.000Z', force: false },
      },
    ]);
  });

  it('does not block the athlete whom a change concerns', async () => {
    const { database } = rig.service;
    await ask(rig, 'POST', '/api/admin/activity-jobs', { activityId: '9200', athleteId: '92' });
    const id = await beginAuditEntry(database, { who: 'admin', action: 'POST /api/admin/activity-jobs', detail: {} });
    await database.transaction(async (tx) => {
      await endAuditEntry(tx, id, { status: 201, athleteId: '92' });
      const locked = database.transaction((other) =>
        other.query('SELECT FROM athlete_schedule WHERE athlete_id = 92 FOR UPDATE SKIP LOCKED', []),
      );
      expect(await locked).toHaveLength(1);
    });
  });

  it('records sessions, and changes made in one', async () => {
    const begun = await send(
      'POST',
      '/api/admin/session',
      { 'content-type': 'application/json' },
      JSON.stringify({ token: ADMIN_TOKEN }),
    );
    const cookie = begun.headers.get('set-cookie')?.split(';')[0] as string;
    await begun.arrayBuffer();
    await (
      await send('DELETE', '/api/admin/activity-jobs?status=done', { cookie, origin: rig.service.url })
    ).arrayBuffer();
    const throughProxy = { cookie, origin: rig.service.url, authorization: 'Basic cHJveHk6cHJveHk=' };
    await (await send('DELETE', '/api/admin/activity-jobs?status=failed', throughProxy)).arrayBuffer();
    const { entries } = (await ask(rig, 'GET', '/api/admin/audit?limit=3')).body;
    expect(entries).toMatchObject([
      { who: 'session', action: 'DELETE /api/admin/activity-jobs', detail: { status: 'failed' } },
      { who: 'session', action: 'DELETE /api/admin/activity-jobs' },
      { who: 'admin', action: 'POST /api/admin/session' },
    ]);
  });
});
