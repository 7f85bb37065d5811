import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import { type Rig, startRig } from '../support/service.ts';
import { until } from '../support/until.ts';

let rig: Rig;
beforeAll(async () => {
  rig = await startRig();
  rig.simulator.subscribe(`${rig.service.url}/api/provider/webhook`);
});
afterAll(() => rig.close());
const get = (path: string, base = rig.service.url) => fetch(`${base}${path}`);

describe('/healthz, /readyz and /metrics', () => {
  it('say that the process is alive, which parts are ready, and what it counts', async () => {
    expect(await (await get('/healthz')).json()).toEqual({ status: 'ok' });
    const ready = await get('/readyz');
    expect(ready.status).toBe(200);
    expect(await ready.json()).toEqual({ status: 'ready', database: 'ok', schema: 'ok', listener: 'ok' });
    const metrics = await get('/metrics');
    expect(metrics.headers.get('content-type')).toMatch('text/plain');
    expect(await metrics.text()).toContain('activity_sync_webhook_events_total');
  });

  it('are served whatever the roles are; the rest needs the role web', async () => {
    const worker = await rig.startReplica({ SERVICE_ROLES: 'fetch' });
    for (const path of ['/healthz', '/readyz', '/metrics']) expect((await get(path, worker.url)).status).toBe(200);
    for (const path of ['/', '/admin', '/api/provider/webhook', '/api/provider/connect', '/api/admin/activity-jobs']) {
      const response = await get(path, worker.url);
      expect({ path, status: response.status }).toEqual({ path, status: 404 });
      expect(response.headers.get('content-type')).toMatch('application/problem+json');
    }
    await worker.stop(1000);
  });

  it('stay ready while the provider throttles', async () => {
    const athleteId = await rig.connectAthlete();
    const { id } = rig.simulator.addActivity(athleteId);
    rig.simulator.faults.add({ kind: 'retryAfter429', retryAfter: 600 });
    await rig.simulator.deliver({ object_id: id, owner_id: athleteId });
    await rig.untilJob(id, ({ error }) => error !== null);
    expect((await get('/readyz')).status).toBe(200);
  });

  it('are not ready while a migration of this version is missing', async () => {
    const { database } = rig.service;
    const [last] = await database.query(
      'DELETE FROM schema_migration WHERE name = (SELECT max(name) FROM schema_migration) RETURNING *',
    );
    const response = await get('/readyz');
    expect(response.status).toBe(503);
    expect(await response.json()).toMatchObject({ status: 'not ready', schema: 'not migrated', database: 'ok' });
    await database.query('INSERT INTO schema_migration VALUES ($1, $2, $3, $4)', Object.values(last ?? {}));
    expect((await get('/readyz')).status).toBe(200);
  });

  it('stay ready under a newer release’s schema that says it is compatible, and not under another', async () => {
    const { database } = rig.service;
    await database.query(
      `INSERT INTO schema_migration (name, compatible) VALUES ('9999-of-a-newer-release.sql', true)`,
    );
    expect((await get('/readyz')).status).toBe(200);
    await database.query(`UPDATE schema_migration SET compatible = false WHERE name LIKE '9999%'`);
    const response = await get('/readyz');
    expect(response.status).toBe(503);
    expect(await response.json()).toMatchObject({ schema: expect.stringContaining('9999-of-a-newer-release.sql') });
    await database.query(`DELETE FROM schema_migration WHERE name LIKE '9999%'`);
  });
});

describe('a read-only database, such as a standby or a full one', () => {
  it('is not ready, and /readyz says why, until it can be written to again', async () => {
    const standby = await startRig({ env: { SERVICE_ROLES: 'web' } });
    const name = new URL(standby.database.url).pathname.slice(1);
    const writer = new pg.Client({
      connectionString: standby.database.url,
      options: '-c default_transaction_read_only=off',
    });
    await writer.connect();
    // A setting of the database holds for new connections.
    const makeReadOnly = async (value: 'on' | 'off') => {
      await writer.query(`ALTER DATABASE ${name} SET default_transaction_read_only = ${value}`);
      await writer.query(
        'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND pid <> pg_backend_pid()',
        [name],
      );
    };
    const readiness = async () => (await (await get('/readyz', standby.service.url)).json()) as { database: string };
    await makeReadOnly('on');
    await until(async () => (await readiness()).database.startsWith('it is read-only'), 'the refusal');
    expect((await get('/readyz', standby.service.url)).status).toBe(503);
    expect((await get('/healthz', standby.service.url)).status).toBe(200);
    await makeReadOnly('off');
    await until(async () => (await get('/readyz', standby.service.url)).status === 200, 'readiness');
    await writer.end();
    await standby.close();
  });
});

describe('another method', () => {
  it.each([
    ['/healthz', 'GET, HEAD'],
    ['/readyz', 'GET, HEAD'],
    ['/metrics', 'GET, HEAD'],
    ['/', 'GET, HEAD'],
    ['/style.css', 'GET, HEAD'],
    ['/activities/1/thumbnail.png', 'GET, HEAD'],
    ['/sign-in', 'GET, HEAD, POST'],
  ])('is refused with 405 at %s, which says that there is %s', async (path, allow) => {
    for (const method of ['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'].filter((one) => !allow.includes(one))) {
      const response = await fetch(`${rig.service.url}${path}`, { method });
      expect([method, response.status, response.headers.get('allow')]).toEqual([method, 405, allow]);
      expect(response.headers.get('content-type')).toMatch('application/problem+json');
      await response.arrayBuffer();
    }
  });
});

describe('an unknown path', () => {
  it('is 404 as a problem document that names it', async () => {
    const response = await get('/api/nothing/here');
    expect(response.status).toBe(404);
    expect(response.headers.get('content-type')).toMatch('application/problem+json');
    expect(await response.json()).toMatchObject({
      status: 404,
      title: 'Not found',
      detail: expect.stringContaining('/api/nothing/here'),
    });
  });

  it('that is not well-formed is 400, never 500', async () => {
    const response = await get('/activities/%E0%A4%A/thumbnail.png');
    expect(response.status).toBe(400);
  });
});
