import { afterEach, describe, expect, it } from '@jest/globals';
import type { Clock } from '../../src/domain/clock.ts';
import { requestFetches } from '../../src/queue/requests.ts';
import { requestThumbnails } from '../../src/queue/thumbnail-queue.ts';
import { type Rig, startRig, testEnvironment } from '../support/service.ts';
import { freePort, type ServiceProcess, startServiceProcess } from '../support/service-process.ts';
import { until } from '../support/until.ts';

const STALE_MS = 1500;

describe('replicas that fetch', () => {
  let rig: Rig;
  const processes: ServiceProcess[] = [];

  afterEach(async () => {
    for (const one of processes.splice(0)) {
      one.child.kill('SIGCONT');
      await one.end('SIGKILL');
    }
    await rig.close();
  });

  const startRigOfWeb = async (env: Record<string, string> = {}) => {
    rig = await startRig({ env: { SERVICE_ROLES: 'web', ...env } });
  };
  const startProcess = async (env: Record<string, string> = {}): Promise<ServiceProcess> => {
    const started = startServiceProcess(
      testEnvironment(rig.simulator.url, {
        DATABASE_URL: rig.database.url,
        PORT: String(await freePort()),
        SERVICE_ROLES: 'fetch',
        PROVIDER_RATE_LIMIT_CAPACITY: '1000000',
        FETCH_STALE_AFTER_MS: String(STALE_MS),
        FETCH_TIMEOUT_MS: '2000', // for so long an athlete is kept whose process died during the call
        FETCH_BACKOFF_BASE_MS: '100',
        ...env,
      }),
    );
    processes.push(started);
    await started.ready();
    return started;
  };
  const ask = async (athleteId: string): Promise<string> => {
    const { id } = rig.simulator.addActivity(athleteId);
    const { boss, database } = rig.service;
    await database.transaction((tx) =>
      requestFetches(boss, tx, [{ activityId: id, athleteId, reason: 'webhook', force: false }]),
    );
    return id;
  };
  const callsFor = (id: string) => rig.simulator.calls.filter((call) => call.activityId === id).length;

  it('killed during a call: another reclaims the job and finishes it, as one attempt', async () => {
    await startRigOfWeb();
    const athleteId = await rig.connectAthlete();
    const held = rig.simulator.faults.add({ match: { path: /activities/ }, kind: 'hold', times: 1 });
    const first = await startProcess();
    const id = await ask(athleteId);
    await held.held;
    await first.end('SIGKILL');
    await startProcess();
    const job = await rig.untilJob(id, ({ status }) => status === 'done', 20_000);
    expect(job).toMatchObject({ attempts: 1, outcome: 'stored' });
    expect(callsFor(id)).toBe(2);
  }, 60_000);

  it('paused beyond the stale time and resumed: its late result is dropped', async () => {
    await startRigOfWeb();
    const athleteId = await rig.connectAthlete();
    const held = rig.simulator.faults.add({ match: { path: /activities/ }, kind: 'hold', times: 1 });
    const slow = await startProcess();
    const id = await ask(athleteId);
    await held.held;
    slow.child.kill('SIGSTOP');
    await startProcess();
    await rig.untilJob(id, ({ status }) => status === 'done', 20_000);
    const [stored] = await rig.service.database.query(
      'SELECT fetched_at, xmin::text AS version FROM activity WHERE activity_id = $1',
      [id],
    );
    held.release();
    slow.child.kill('SIGCONT');
    await untilPrinted(slow, 'claim lost, result discarded');
    expect(
      await rig.service.database.query(
        'SELECT fetched_at, xmin::text AS version FROM activity WHERE activity_id = $1',
        [id],
      ),
    ).toEqual([stored]);
    expect(await rig.untilJob(id, () => true)).toMatchObject({ status: 'done', attempts: 1 });
  }, 60_000);

  it('never fetch one athlete twice within the cooldown, by the provider’s log, even across a crash', async () => {
    const cooldownMs = 800;
    await startRigOfWeb({ PROVIDER_ATHLETE_COOLDOWN: String(cooldownMs) });
    const env = { PROVIDER_ATHLETE_COOLDOWN: String(cooldownMs), FETCH_TIMEOUT_MS: '1000' };
    const athleteId = await rig.connectAthlete();
    const ids: string[] = [];
    for (let n = 0; n < 5; n += 1) ids.push(await ask(athleteId));
    const [crashing] = [await startProcess(env), await startProcess(env)];
    await rig.simulator.waitForArrival((call) => call.path.startsWith('/api/v3/activities/'));
    await crashing?.end('SIGKILL');
    for (const id of ids) await rig.untilJob(id, ({ status }) => status === 'done', 30_000);
    const times = rig.simulator.calls
      .filter((call) => call.path.startsWith('/api/v3/activities/'))
      .map((call) => call.at);
    const gaps = times.slice(1).map((at, n) => at - (times[n] ?? 0));
    expect(Math.min(...gaps)).toBeGreaterThanOrEqual(cooldownMs);
  }, 60_000);

  it('decide by the database’s clock: one that is an hour ahead neither hurries nor waits', async () => {
    await startRigOfWeb();
    const athleteId = await rig.connectAthlete();
    await rig.service.database.query(`UPDATE rate_budget SET blocked_until = now() + interval '700 ms'`);
    await rig.startReplica({ SERVICE_ROLES: 'fetch' }, clockAhead(3_600_000));
    const id = await ask(athleteId);
    const waiting = await rig.untilJob(id, () => true);
    expect(waiting.status).toBe('pending');
    const job = await rig.untilJob(id, ({ status }) => status === 'done');
    expect(job.attempts).toBe(0);
    const [call] = rig.simulator.calls.filter((one) => one.activityId === id);
    expect(call?.at).toBeGreaterThanOrEqual(waiting.nextRunAt.getTime());
  }, 30_000);

  it('decide by the database’s clock: one that is ahead sleeps until a picture is due, without a busy loop', async () => {
    await startRigOfWeb();
    const { boss, database } = rig.service;
    const waits: number[] = [];
    const clock = clockAhead(600_000);
    const counting: Clock = {
      ...clock,
      setTimeout: (fn, ms) => {
        waits.push(ms);
        return clock.setTimeout(fn, ms);
      },
    };
    await rig.startReplica({ SERVICE_ROLES: 'thumbnail' }, counting);
    await database.transaction(async (tx) => {
      await requestThumbnails(boss, tx, ['77']);
      await tx.query(`UPDATE pgboss.job SET start_after = now() + interval '1500 ms' WHERE name = 'thumbnail'`);
    });
    const state = async () => (await boss.findJobs('thumbnail', { key: '77' }))[0]?.state;
    await until(async () => (await state()) === 'completed', 'the end of the job');
    expect(waits.some((ms) => ms > 500 && ms <= 1500)).toBe(true);
    expect(waits.filter((ms) => ms <= 25).length).toBeLessThanOrEqual(3); // a timer may fire a little early
  }, 30_000);
});

/** The time of a machine that is wrong by so many milliseconds. */
function clockAhead(ms: number): Clock {
  return { now: () => Date.now() + ms, setTimeout, setInterval, clearTimeout: clear, clearInterval: clear };
}

function clear(handle: unknown): void {
  clearTimeout(handle as NodeJS.Timeout);
}

function untilPrinted(service: ServiceProcess, text: string): Promise<void> {
  return new Promise((resolve) => {
    const look = () => {
      if (service.output().includes(text)) resolve();
    };
    service.child.stdout?.on('data', look);
    look();
  });
}
