/*
 * The operator's console at a million jobs: how long each request of a view takes, and what 50
 * open consoles cost: connections that LISTEN, and deliveries a second.
 * Run: node bench/console.ts [jobs]
 */
import { Agent, get } from 'node:http';
import { freePort, startServiceProcess } from '../test/support/service-process.ts';
import { median, percentile, printGoal, printTable } from './support/figures.ts';
import { runLoad } from './support/load-generator.ts';
import { runSql, startBenchPostgres } from './support/postgres.ts';
import { serviceEnvironment } from './support/service-environment.ts';

const JOBS = Number(process.argv[2] ?? 1_000_000);
const ATHLETES = 2000;
const TRIES = 40;
const VIEWERS = 50;
const INTAKE = { path: '/api/provider/webhook', connections: 16, durationMs: 3000 };
const INTAKE_ROUNDS = 5;
const MIDDLE = Math.floor(JOBS / 2);

/** The requests of each view, for its first page and for an expensive filter. */
const VIEWS: Record<string, string[]> = {
  Overview: ['/overview', '/history?hours=1', '/history?hours=24'],
  Jobs: [
    '/activity-jobs?limit=50',
    '/activity-jobs/count?',
    `/activity-jobs?limit=50&cursor=${MIDDLE}`,
    '/activity-jobs?limit=50&status=failed&reason=manual',
    '/activity-jobs/count?status=failed&reason=manual',
    '/activity-jobs?limit=50&status=pending&athleteId=7',
    '/activity-jobs/count?status=done&athleteId=7',
    `/activity-jobs?limit=50&activityId=${MIDDLE}`,
  ],
  'One job': [`/activity-jobs/${MIDDLE}`, `/activity-jobs/${JOBS - 100}`],
  Athletes: ['/athletes?limit=50', '/athletes?limit=50&state=reconnect', '/syncs?limit=5'],
  'One athlete': ['/athletes/7', '/syncs?limit=100'],
  Activities: ['/activities?limit=48', '/activities?limit=48&athleteId=7'],
  'One activity': ['/activities/7', '/activities/7/changes'],
  Deliveries: [
    '/webhook-events?limit=50',
    '/webhook-events?limit=50&result=stale',
    '/webhook-events?limit=50&athleteId=7',
  ],
  Application: ['/endpoints?limit=50', '/api-tokens'],
  // The quiet one of ten has nothing but its attempts of long ago.
  'One endpoint': ['/endpoints/2', '/endpoints/10', ...[2, 10].flatMap((id) => attemptsOf(id))],
  Audit: ['/audit?limit=50'],
};

function attemptsOf(endpointId: number): string[] {
  const address = `/api/v1/endpoints/${endpointId}/attempts?limit=50`;
  return [address, `${address}&result=exhausted`, `${address}&result=delivered`, `${address}&activityId=7`];
}

const postgres = await startBenchPostgres();
const url = await postgres.createDatabase();
const port = await freePort();
const environment = serviceEnvironment(url, port, { SERVICE_ROLES: 'web' });
const headers = { authorization: `Bearer ${environment.ADMIN_TOKEN}` };
const agent = new Agent({ keepAlive: true });
await fill();
const service = startServiceProcess(environment);
try {
  await service.ready();
  const rows: (string | number)[][] = [['view', 'address', 'median ms', 'p95 ms']];
  const p95s: number[] = [];
  for (const [view, paths] of Object.entries(VIEWS)) {
    for (const path of paths) {
      await timeOf(path); // the first one plans
      const times: number[] = [];
      for (let n = 0; n < TRIES; n += 1) times.push(await timeOf(path));
      p95s.push(percentile(times, 0.95));
      rows.push([view, path, median(times).toFixed(1), percentile(times, 0.95).toFixed(1)]);
    }
  }
  console.log(`console: ${JOBS.toLocaleString('en')} jobs, ${TRIES} tries each`);
  printTable(rows);
  const fast = printGoal(
    'every view answers in under 200 ms',
    p95s.every((ms) => ms < 200),
  );

  const quiet: number[] = [];
  const watched: number[] = [];
  let listeners = 0;
  for (let round = 0; round <= INTAKE_ROUNDS; round += 1) {
    const alone = await intake(2 * round);
    const streams = await Promise.all(Array.from({ length: VIEWERS }, openStream));
    const beside = await intake(2 * round + 1);
    listeners = Math.max(listeners, await countListeners());
    for (const stream of streams) stream.destroy();
    if (round === 0) continue; // warms up
    quiet.push(alone);
    watched.push(beside);
  }
  console.log(`\ndeliveries a second, median of ${INTAKE_ROUNDS} rounds`);
  printTable([
    ['', 'deliveries/s', 'LISTEN connections'],
    ['nobody looks on', median(quiet).toFixed(0), ''],
    [`${VIEWERS} event streams`, median(watched).toFixed(0), listeners],
  ]);
  const one = printGoal('one LISTEN connection', listeners === 1);
  // Within a round both see the same load from other programs.
  const share = median(watched.map((rate, n) => rate / (quiet[n] ?? Number.NaN)));
  const free = printGoal(`at least 95% of the deliveries (${(100 * share).toFixed(0)}%)`, share >= 0.95);
  process.exitCode = fast && one && free ? 0 : 1;
} finally {
  agent.destroy();
  await service.end('SIGTERM');
  await postgres.stop();
}

function timeOf(path: string): Promise<number> {
  const startedAt = performance.now();
  return new Promise((resolve, reject) => {
    get(`${service.url}${path.startsWith('/api/') ? '' : '/api/admin'}${path}`, { agent, headers }, (response) => {
      response.resume();
      response.once('end', () => {
        if (response.statusCode === 200) resolve(performance.now() - startedAt);
        else reject(new Error(`${path} answered ${response.statusCode}`));
      });
    }).once('error', reject);
  });
}

function openStream(): Promise<{ destroy(): void }> {
  return new Promise((resolve, reject) => {
    const request = get(`${service.url}/api/admin/events`, { headers }, (response) => {
      response.resume();
      response.once('error', () => undefined); // it is cut off at the end
      response.once('data', () => resolve(request));
    });
    request.once('error', reject);
  });
}

async function intake(round: number): Promise<number> {
  const { perSecond, failed } = await runLoad({ ...INTAKE, port, firstId: 10_000_000_000 + round * 1_000_000 });
  if (failed > 0) throw new Error(`${failed} deliveries were refused`);
  return perSecond;
}

async function countListeners(): Promise<number> {
  const [row] = await runSql<{ n: number }>(
    url,
    `SELECT count(*)::int AS n FROM pg_stat_activity WHERE application_name = 'activity-sync listen'`,
  );
  return row?.n ?? 0;
}

/** A service as it is after months: most jobs done, a tenth waiting, a week of history. */
async function fill(): Promise<void> {
  const statements = [
    `INSERT INTO athlete_schedule (athlete_id) SELECT generate_series(1, ${ATHLETES})`,
    `INSERT INTO athlete (athlete_id, access_token, refresh_token, token_expires_at, scope, state)
     SELECT n, 'sealed', 'sealed', now() + interval '1 day', 'read', CASE WHEN n % 500 = 0 THEN 'reconnect' ELSE 'healthy' END
     FROM generate_series(1, ${ATHLETES}) n`,
    `INSERT INTO lane (athlete_id, reason) SELECT n, reason FROM generate_series(1, ${ATHLETES}) n, unnest('{webhook,manual,polling}'::text[]) reason`,
    `INSERT INTO activity_fetch_job (activity_id, athlete_id, reason, outcome)
     SELECT n, 1 + n % ${ATHLETES}, CASE WHEN n % 400 = 0 THEN 'manual' WHEN n % 10 = 0 THEN 'polling' ELSE 'webhook' END,
       (CASE WHEN n > ${JOBS * 0.9} THEN NULL WHEN n % 1000 = 50 THEN 'notFound' ELSE 'stored' END)::fetch_outcome
     FROM generate_series(1, ${JOBS}) n`,
    `INSERT INTO pgboss.job (id, name, state, priority, policy, singleton_key, group_id, data, started_on, completed_on, retry_limit, output)
     SELECT r.boss_job_id, 'activity-fetch',
       (CASE WHEN r.outcome = 'notFound' THEN 'failed' WHEN r.outcome IS NOT NULL THEN 'completed'
         WHEN r.id > ${JOBS - 3} THEN 'active' ELSE 'created' END)::pgboss.job_state,
       l.lane, 'exclusive', r.activity_id::text, r.athlete_id::text, '{}',
       CASE WHEN r.outcome IS NOT NULL OR r.id > ${JOBS - 3} THEN now() END,
       CASE WHEN r.outcome IS NOT NULL THEN now() END, 5, CASE WHEN r.outcome = 'notFound' THEN '{"message":"gone"}'::jsonb END
     FROM activity_fetch_job r JOIN lane l USING (athlete_id, reason)`,
    `INSERT INTO activity (activity_id, athlete_id, name, sport_type, start_date, detail)
     SELECT n, 1 + n % ${ATHLETES}, 'Morning Run', 'Run', now() - n * interval '1 minute', '{}'
     FROM generate_series(1, ${JOBS / 5}) n`,
    `INSERT INTO webhook_event (object_type, object_id, aspect_type, owner_id, event_time, received_at, result)
     SELECT 'activity', n, 'create', 1 + n % ${ATHLETES}, now(), now() - n * interval '1 second', (CASE WHEN n % 9999 = 0 THEN 'stale' ELSE 'accepted' END)::event_result
     FROM generate_series(1, ${JOBS / 2}) n`,
    `INSERT INTO history (minute, measure, bucket, n)
     SELECT date_trunc('minute', now()) - m * interval '1 minute', measure, bucket, 5
     FROM generate_series(1, 10080) m, unnest('{finished:stored,finished:retry,wait:webhook,wait:polling,stored}'::text[]) measure,
       unnest('{0,0.05,0.1,0.25,0.5}'::float8[]) bucket`,
    `INSERT INTO audit_entry (who, action) SELECT 'admin', 'POST /api/admin/activity-jobs' FROM generate_series(1, 10000)`,
    `INSERT INTO endpoint (url, secret, position) SELECT 'https://app.example.com/' || n, 'sealed', 0 FROM generate_series(1, 10) n`,
    // Ten deliveries to the last endpoint, then all the others'; a tenth of them waits for one that fails.
    `INSERT INTO delivery (endpoint_id, change_id, type, at, athlete_id, activity_id, state, settled_at)
     SELECT CASE WHEN n <= 10 THEN 10 ELSE 1 + n % 9 END, gen_random_uuid(), 'activity.created', now(), 1 + n % ${ATHLETES}, 1 + n / 4,
       CASE WHEN n % 9 = 1 AND n > 10 THEN 'waiting' ELSE 'delivered' END, now()
     FROM generate_series(1, ${JOBS / 2}) n`,
    `INSERT INTO delivery_attempt (delivery_id, endpoint_id, duration_ms, status, result)
     SELECT id, endpoint_id, id % 500, CASE WHEN id % 1000 = 7 THEN 500 ELSE 200 END, CASE WHEN id % 1000 = 7 THEN 'exhausted' ELSE 'delivered' END
     FROM delivery WHERE state = 'delivered'`,
    `INSERT INTO change (type, athlete_id, activity_id) SELECT 'activity.created', 1 + n % ${ATHLETES}, 1 + n / 4 FROM generate_series(1, ${JOBS / 10}) n`,
    'VACUUM ANALYZE',
    'CHECKPOINT',
  ];
  for (const statement of statements) await runSql(url, statement);
}
