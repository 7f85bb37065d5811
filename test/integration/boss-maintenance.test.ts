import { once } from 'node:events';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { PgBoss } from 'pg-boss';
import { systemClock } from '../../src/domain/clock.ts';
import { createBoss, createQueues, THUMBNAIL_QUEUE } from '../../src/infra/boss.ts';
import type { Database } from '../../src/infra/database.ts';
import { createSilentLogger } from '../../src/infra/logger.ts';
import { startClockedRig } from '../support/clocked-rig.ts';
import { createTestDatabase, openTestDatabase, type TestDatabase } from '../support/database.ts';
import { metric } from '../support/metric.ts';
import { startRig } from '../support/service.ts';
import { playWorker } from '../support/settling.ts';

describe("pg-boss's own maintenance, on the service's connections", () => {
  let testDatabase: TestDatabase;
  let database: Database;
  let boss: PgBoss;
  let errors: Error[];

  beforeEach(async () => {
    testDatabase = await createTestDatabase();
    database = openTestDatabase(testDatabase.url, 2);
    const logger = createSilentLogger();
    boss = createBoss({ database, clock: systemClock, logger, migrate: false, supervise: false });
    errors = [];
    boss.on('error', (error) => errors.push(error));
    await boss.start();
    await createQueues(boss);
  });
  afterEach(async () => {
    await boss.stop({ graceful: false, close: false });
    await database.close();
    await testDatabase.drop();
  });

  const stateOf = async (id: string) =>
    (await database.query<{ state: string }>('SELECT state::text FROM pgboss.job WHERE id = $1', [id]))[0]?.state;

  it('reclaims a thumbnail job whose worker died', async () => {
    await boss.send(THUMBNAIL_QUEUE, { activityId: '1' }, { singletonKey: '1' });
    const [job] = await boss.fetch(THUMBNAIL_QUEUE);
    await database.query("UPDATE pgboss.job SET started_on = now() - interval '10 minutes' WHERE id = $1", [job?.id]);
    await boss.supervise();
    expect(errors).toEqual([]);
    expect(await stateOf(job?.id ?? '')).toBe('retry');
  });

  it('deletes a thumbnail job that was done more than a day ago', async () => {
    await boss.send(THUMBNAIL_QUEUE, { activityId: '1' }, { singletonKey: '1' });
    const [job] = await boss.fetch(THUMBNAIL_QUEUE);
    await boss.complete(THUMBNAIL_QUEUE, job?.id ?? '');
    await database.query("UPDATE pgboss.job SET completed_on = now() - interval '25 hours' WHERE id = $1", [job?.id]);
    await boss.supervise();
    expect(errors).toEqual([]);
    expect(await stateOf(job?.id ?? '')).toBeUndefined();
  });
});

describe("pg-boss's daily maintenance", () => {
  it('leaves a job alone that a stopped service has released', async () => {
    const rig = await startRig({ env: { SERVICE_ROLES: 'web' } });
    try {
      rig.simulator.subscribe(`${rig.service.url}/api/provider/webhook`);
      const worker = await rig.startReplica({ SERVICE_ROLES: 'fetch' });
      const athleteId = await rig.connectAthlete();
      const { id } = rig.simulator.addActivity(athleteId);
      const hold = rig.simulator.faults.add({ kind: 'hold', match: { activityId: id } });
      await rig.simulator.deliver({ object_id: id, owner_id: athleteId });
      await hold.held;
      await worker.stop(0);
      hold.remove();
      await rig.service.database.query("UPDATE pgboss.queue SET maintain_on = now() - interval '25 hours'");
      await rig.service.boss.supervise();
      expect(await rig.untilJob(id, () => true)).toMatchObject({ status: 'pending', attempts: 0 });
      await rig.startReplica({ SERVICE_ROLES: 'fetch' });
      expect(await rig.untilJob(id, ({ status }) => status !== 'pending')).toMatchObject({ attempts: 0 });
      await rig.untilJob(id, ({ outcome }) => outcome === 'stored');
    } finally {
      await rig.close();
    }
  });
});

describe('a last attempt that was not rescued within a day, since no fetch worker ran', () => {
  it('fails once a fetch worker runs again, and stays visible', async () => {
    const rig = await startRig({ env: { SERVICE_ROLES: 'web' } });
    try {
      rig.simulator.subscribe(`${rig.service.url}/api/provider/webhook`);
      const athleteId = await rig.connectAthlete();
      const { id } = rig.simulator.addActivity(athleteId);
      await rig.simulator.deliver({ object_id: id, owner_id: athleteId });
      const { database, boss } = rig.service;
      await playWorker(rig.service).claim();
      await database.query(
        `UPDATE pgboss.job SET retry_count = retry_limit, started_on = now() - interval '25 hours' WHERE name = 'activity-fetch'`,
      );
      await database.query(`UPDATE activity_fetch_job SET requested_at = now() - interval '26 hours'`);
      await boss.supervise();
      await rig.startReplica({ SERVICE_ROLES: 'fetch' });
      expect(await rig.untilJob(id, () => true)).toMatchObject({
        error: 'job timed out',
        status: 'failed',
        outcome: 'exhausted',
        attempts: 5,
      });
    } finally {
      await rig.close();
    }
  });
});

describe("an error in pg-boss's own maintenance", () => {
  it('is counted, so that an alert fires', async () => {
    const rig = await startClockedRig({ SERVICE_ROLES: 'web,fetch' });
    try {
      // One table, so one lock: renamed in the job table and its partitions, it may meet pg-boss's start in a deadlock.
      await rig.service.database.query('ALTER TABLE pgboss.queue RENAME COLUMN monitor_on TO gone');
      const reported = once(rig.service.boss, 'error', { signal: AbortSignal.timeout(10_000) });
      await rig.advance(2 * 60_000);
      expect(String(await reported)).toContain('monitor_on');
      expect(await metric(rig.service.url, 'activity_sync_errors_total{component="pg-boss"}')).toBe(1);
    } finally {
      await rig.close();
    }
  });
});
