import { afterEach, describe, expect, it } from '@jest/globals';
import { requestThumbnails } from '../../src/queue/thumbnail-queue.ts';
import { ask } from '../support/admin.ts';
import { type ClockedRig, startClockedRig } from '../support/clocked-rig.ts';
import { metric } from '../support/metric.ts';
import { request } from '../support/requests.ts';
import type { Rig } from '../support/service.ts';
import { until } from '../support/until.ts';

let rig: Rig;
afterEach(() => rig.close());

const PATIENCE_MS = 60_000;
const TEST_MS = 120_000;

/**
 * Lets time pass until something shows. The workers get real time after each step: a process that is still
 * reading when the next one comes would lose its lease to the other.
 */
async function advanceUntil({ clock }: ClockedRig, stepMs: number, fits: () => Promise<boolean>, what: string) {
  const deadline = performance.now() + PATIENCE_MS;
  for (;;) {
    await clock.setTime(clock.now() + stepMs);
    await clock.tick(0); // every timer that fell due fires once
    const seen = await until(fits, what, STEP_PATIENCE_MS).then(
      () => true,
      () => false,
    );
    if (seen) return;
    if (performance.now() > deadline) throw new Error(`${what} did not happen`);
  }
}
const STEP_PATIENCE_MS = 1500;

describe('the gauges of the queue', () => {
  it(
    'are shown by one process, and taken over when it stops',
    async () => {
      const clocked = await startClockedRig({ SERVICE_ROLES: 'web' });
      rig = clocked;
      const first = rig.service;
      await until(
        async () => (await metric(first.url, 'activity_sync_budget_capacity')) === 1_000_000,
        'the first reading',
        PATIENCE_MS,
      );
      const second = await rig.startReplica();
      expect(await metric(second.url, 'activity_sync_budget_capacity')).toBeUndefined();
      expect(await metric(second.url, 'activity_sync_jobs{status="pending",reason="manual"}')).toBeUndefined();

      await request(rig, '501', '5', 'manual');
      await rig.post({
        object_type: 'activity',
        object_id: 502,
        aspect_type: 'create',
        owner_id: 5,
        subscription_id: 1,
        event_time: 1_700_000_000,
      });
      // The counts are read before the waits, and both before the time of the last delivery.
      await advanceUntil(
        clocked,
        5000,
        async () =>
          (await metric(first.url, 'activity_sync_jobs{status="pending",reason="manual"}')) === 1 &&
          (await metric(first.url, 'activity_sync_jobs{status="pending",reason="webhook"}')) === 1 &&
          (await metric(first.url, 'activity_sync_jobs_waiting{cause="turn"}')) === 2 &&
          (await metric(first.url, 'activity_sync_webhook_last_received_timestamp_seconds')) !== undefined,
        'the counts of jobs and of those that wait',
      );
      expect(await metric(first.url, 'activity_sync_jobs{status="done",reason="polling"}')).toBe(0);
      expect(await metric(first.url, 'activity_sync_oldest_due_job_age_seconds{reason="webhook"}')).toBeGreaterThan(0);
      expect(await metric(first.url, 'activity_sync_athletes{state="healthy"}')).toBe(0);
      expect(await metric(first.url, 'activity_sync_oldest_due_thumbnail_age_seconds')).toBe(0);
      await first.database.transaction((tx) => requestThumbnails(first.boss, tx, ['502']));
      await advanceUntil(
        clocked,
        5000,
        async () => Number(await metric(first.url, 'activity_sync_oldest_due_thumbnail_age_seconds')) >= 10,
        'the wait of a thumbnail that no process draws',
      );
      expect(await metric(second.url, 'activity_sync_db_pool_connections{state="total"}')).toBeGreaterThan(0);

      await first.stop();
      await advanceUntil(
        clocked,
        5000,
        async () =>
          (await metric(second.url, 'activity_sync_jobs{status="pending",reason="manual"}')) === 1 &&
          (await metric(second.url, 'activity_sync_budget_capacity')) === 1_000_000,
        'the handing over',
      );
    },
    TEST_MS,
  );
});

describe('the retention', () => {
  it(
    'removes what is older than JOB_RETENTION_DAYS, and no open job',
    async () => {
      const clocked = await startClockedRig({ JOB_RETENTION_DAYS: '3' });
      rig = clocked;
      const athleteId = await rig.connectAthlete();
      const { id: stored } = rig.simulator.addActivity(athleteId);
      const { id: gone } = rig.simulator.addActivity(athleteId);
      rig.simulator.deleteActivity(gone);
      for (const [index, object_id] of [stored, gone].entries())
        await rig.post({
          object_type: 'activity',
          object_id,
          aspect_type: 'create',
          owner_id: athleteId,
          subscription_id: 1,
          event_time: Math.floor(clocked.clock.now() / 1000) + index,
        });
      await rig.untilJob(stored, (job) => job.outcome === 'stored');
      await rig.untilJob(gone, (job) => job.outcome === 'notFound');
      const { database } = rig.service;
      await database.query(`INSERT INTO activity_tombstone (activity_id, athlete_id) VALUES (999, $1)`, [athleteId]);
      await ask(rig, 'DELETE', '/api/admin/activity-jobs?status=pending');
      // Open for as long as the clock runs: the provider allows no call.
      await database.query(`UPDATE rate_budget SET blocked_until = sync_now() + interval '1 year'`);
      await ask(rig, 'POST', '/api/admin/activity-jobs', { activityId: '12345', athleteId });
      // A purge removes history last: when the older minute is gone, one has ended.
      await database.query(
        `INSERT INTO history (minute, measure, bucket, n)
         VALUES (sync_now() - interval '2 days', 'older', 0, 1), (sync_now(), 'newer', 0, 1)`,
      );
      const hasMinute = async (measure: string) =>
        (await database.query('SELECT FROM history WHERE measure = $1', [measure])).length === 1;

      const left = async () => {
        const rows = await database.query<{ of: string }>(
          `SELECT 'job ' || activity_id AS of FROM activity_fetch_job UNION ALL SELECT 'event' FROM webhook_event
         UNION ALL SELECT 'tombstone' FROM activity_tombstone UNION ALL SELECT 'audit' FROM audit_entry
         UNION ALL SELECT 'attempt' FROM fetch_attempt UNION ALL SELECT 'pg-boss job' FROM pgboss.job WHERE name = 'activity-fetch'`,
        );
        return rows.map((row) => row.of).sort();
      };
      const everything = await left();
      await clocked.advance(2 * 86_400_000);
      await advanceUntil(clocked, 600_000, async () => !(await hasMinute('older')), 'the first purge');
      expect(await left()).toEqual(everything);
      expect(await hasMinute('newer')).toBe(true);
      await clocked.advance(2 * 86_400_000);
      await advanceUntil(clocked, 3_600_000, async () => (await left()).length === 2, 'the purge');
      expect(await left()).toEqual(['job 12345', 'pg-boss job']);
      await until(async () => !(await hasMinute('newer')), 'the end of the purge');
      expect((await ask(rig, 'GET', '/api/admin/activity-jobs')).body.stats).toEqual({
        pending: 1,
        working: 0,
        done: 0,
        failed: 0,
        total: 1,
      });
      expect(await database.query('SELECT FROM activity WHERE activity_id = $1', [stored])).toHaveLength(1);
    },
    TEST_MS,
  );
});
