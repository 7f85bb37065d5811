import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import { requestFetches } from '../../src/queue/requests.ts';
import { type Rig, startRig } from '../support/service.ts';

const JOBS = 100_000;
const ATHLETES = 500;
const BATCH = 10_000;

describe(`${JOBS} jobs that wait for an empty budget`, () => {
  let rig: Rig;

  beforeAll(async () => {
    rig = await startRig({ env: { SERVICE_ROLES: 'web,fetch' } });
    const { database } = rig.service;
    await database.query(`UPDATE rate_budget SET blocked_until = now() + interval '1 hour', blocked_by = 'the test'`);
    await database.query(
      `INSERT INTO athlete (athlete_id, access_token, refresh_token, token_expires_at, scope)
       SELECT n, 'sealed', 'sealed', now() + interval '1 hour', 'read' FROM generate_series(1, ${ATHLETES}) n`,
    );
    for (let from = 0; from < JOBS; from += BATCH) {
      const requests = Array.from({ length: BATCH }, (_, n) => ({
        activityId: String(from + n + 1),
        athleteId: String((n % ATHLETES) + 1),
        reason: (['webhook', 'manual', 'polling'] as const)[n % 3] ?? 'webhook',
        force: false,
      }));
      await database.transaction((tx) => requestFetches(rig.service.boss, tx, requests));
    }
  }, 120_000);

  afterAll(() => rig.close());

  it('cost fewer than five statements a second, and not one row is rewritten', async () => {
    const { database } = rig.service;
    const before = await versionsOfRows(rig);
    const counted = countStatements();
    await counted.until('next_lane()', 6); // six polls of the fetch worker, 2 s apart
    const perSecond = counted.perSecond();
    counted.stop();
    expect(perSecond).toBeLessThan(5);
    expect(await versionsOfRows(rig)).toEqual(before);
    expect(await database.query(`SELECT count(*)::int AS n FROM "ActivityFetchJob" WHERE status = 'working'`)).toEqual([
      { n: 0 },
    ]);
  });

  it('are pending, with the true time of their next run and no attempt counted', async () => {
    const rows = await rig.service.database.query(
      `SELECT v.status, count(*)::int AS n, max(v.attempts) AS attempts, bool_and(v."nextRunAt" >= b.blocked_until) AS later
       FROM "ActivityFetchJob" v, rate_budget b GROUP BY v.status`,
    );
    expect(rows).toEqual([{ status: 'pending', n: JOBS, attempts: 0, later: true }]);
  });

  it('occupy no worker slot', async () => {
    const metrics = await rig.service.metrics.registry.getSingleMetricAsString('activity_sync_workers_busy');
    expect(metrics).not.toMatch(/activity_sync_workers_busy\{worker="fetch"\} [1-9]/);
  });
});

/** What changes when a row is written: its place and the transaction that wrote it. */
function versionsOfRows(rig: Rig) {
  return rig.service.database.query(`
    SELECT 'jobs' AS what, md5(string_agg(ctid::text || xmin::text, ',' ORDER BY id)) AS versions FROM pgboss.job WHERE name = 'activity-fetch'
    UNION ALL SELECT 'requests', md5(string_agg(ctid::text || xmin::text, ',' ORDER BY id)) FROM activity_fetch_job
    UNION ALL SELECT 'schedule', md5(string_agg(ctid::text || xmin::text, ',' ORDER BY athlete_id)) FROM athlete_schedule
    UNION ALL SELECT 'lanes', md5(string_agg(ctid::text || xmin::text, ',' ORDER BY lane)) FROM lane
    UNION ALL SELECT 'budget', md5(string_agg(ctid::text || xmin::text, ',')) FROM rate_budget
    ORDER BY what`);
}

/** Counts every statement that this process sends, but for the beginnings and ends of transactions. */
function countStatements() {
  const startedAt = performance.now();
  const texts: string[] = [];
  let heard: (() => void) | undefined;
  const { query } = pg.Client.prototype;
  pg.Client.prototype.query = function counted(this: unknown, ...args: unknown[]) {
    const [statement] = args;
    const text = typeof statement === 'string' ? statement : String((statement as { text?: string }).text);
    if (!/^(BEGIN|COMMIT|ROLLBACK)/.test(text)) texts.push(text);
    heard?.();
    return (query as (...all: unknown[]) => unknown).apply(this, args);
  } as typeof query;
  return {
    until: (part: string, times: number) =>
      new Promise<void>((resolve) => {
        heard = () => {
          if (texts.filter((text) => text.includes(part)).length >= times) resolve();
        };
        heard();
      }),
    perSecond: () => texts.length / ((performance.now() - startedAt) / 1000),
    stop: () => {
      pg.Client.prototype.query = query;
    },
  };
}
