import { afterEach, describe, expect, it } from '@jest/globals';
import { notify } from '../../src/infra/notify.ts';
import type { CallRecord } from '../../src/simulator/call-log.ts';
import { startClockedRig } from '../support/clocked-rig.ts';
import { SWEPT } from '../support/polling.ts';
import { type Rig, startRig, testEnvironment } from '../support/service.ts';
import { freePort, startServiceProcess } from '../support/service-process.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
let rig: Rig | undefined;
afterEach(async () => {
  await rig?.close();
  rig = undefined;
});

const isList = (call: CallRecord) => call.path === '/api/v3/athlete/activities';

async function untilRow(of: Rig, query: string, values: unknown[] = []): Promise<void> {
  while ((await of.service.database.query(query, values)).length === 0) {
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** Makes a sweep due at once. */
async function makeDue(of: Rig): Promise<void> {
  await of.service.database.query(`UPDATE list_walk SET finished_at = '-infinity' WHERE kind = 'polling'`);
  await notify(of.service.database, 'polling');
}

describe('the polling interval', () => {
  it('may be a week, and is not reset by a restart', async () => {
    const env = { PROVIDER_AUTO_SYNC_ENABLED: 'true', PROVIDER_WORKER_INTERVAL_MS: '604800000' };
    const clocked = await startClockedRig(env);
    rig = clocked;
    let { service } = rig;
    await untilRow(rig, SWEPT);
    const athleteId = await rig.connectAthlete();
    await untilRow(rig, SWEPT);
    rig.simulator.clearCalls(); // they were polled when they connected
    const lists = () => clocked.simulator.calls.filter(isList).length;

    const pass = async (ms: number) => {
      await clocked.clock.setTime(clocked.clock.now() + ms);
      await clocked.clock.tick(0);
      // A look that was under way is followed by another one, which sees the time that it is now.
      await notify(service.database, 'polling');
    };

    await pass(4 * DAY);
    await service.stop();
    service = await rig.startReplica();
    rig = { ...rig, service };
    await untilMetric(rig, /^activity_sync_polling_interval_seconds 604800$/m);
    await pass(3 * DAY - HOUR);
    expect(lists()).toBe(0);
    await pass(HOUR + 1000);
    await rig.simulator.waitForCall(isList);
    await untilMetric(rig, /^activity_sync_polling_sweeps_total\{result="finished"\} 1$/m);
    await untilMetric(rig, new RegExp(`timestamp_seconds ${Math.floor(clocked.clock.now() / 1000)}`));
    expect(rig.simulator.calls.filter((call) => isList(call) && call.athleteId === athleteId)).toHaveLength(1);
  });

  it('is 0 in the metrics while automatic sync is disabled, and no process polls', async () => {
    const clocked = await startClockedRig({ PROVIDER_AUTO_SYNC_ENABLED: 'false' });
    rig = clocked;
    await rig.connectAthlete();
    await clocked.advance(2 * DAY);
    await untilMetric(rig, /^activity_sync_polling_interval_seconds 0$/m);
    expect(rig.simulator.calls.filter(isList)).toHaveLength(0);
  });
});

describe('when no process polls', () => {
  it('a web process shows the interval and when the last sweep ended: an alert reads both', async () => {
    rig = await startRig({ env: { SERVICE_ROLES: 'web', PROVIDER_AUTO_SYNC_ENABLED: 'true' } });
    await untilMetric(rig, /^activity_sync_polling_interval_seconds 14400$/m);
    await rig.service.database.query(`UPDATE list_walk SET finished_at = to_timestamp(1750000000)`);
    await untilMetric(rig, /^activity_sync_polling_last_finished_timestamp_seconds 1750000000$/m);
  }, 30_000);
});

async function untilMetric(of: Rig, line: RegExp): Promise<void> {
  while (!line.test(await (await fetch(`${of.service.url}/metrics`)).text())) {
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

describe('POLLING_STOP_AFTER', () => {
  it.each([
    ['9', 1],
    ['10', 2],
  ])('of %s and at most 9 known in a row: pages requested: %d', async (POLLING_STOP_AFTER, pages) => {
    rig = await startRig({
      env: { PROVIDER_AUTO_SYNC_ENABLED: 'true', SERVICE_ROLES: 'web,fetch,polling', POLLING_STOP_AFTER },
    });
    await untilRow(rig, SWEPT);
    const athleteId = await rig.connectAthlete();
    const newest = Date.now() - DAY / 2;
    rig.simulator.addHistory(athleteId, 60); // one every twelve hours
    await makeDue(rig);
    await untilRow(rig, 'SELECT FROM activity WHERE athlete_id = $1 HAVING count(*) = 60', [athleteId]);
    await untilRow(rig, SWEPT);
    // The first page holds 30: 5 known, one unknown, 9 known, one unknown, 9 known, one unknown, 4 known.
    for (const gap of [4.5, 13.5, 22.5])
      rig.simulator.addActivity(athleteId, { startDate: newest - (gap * DAY) / 2, elapsedSeconds: 600 });
    rig.simulator.clearCalls();
    await makeDue(rig);
    await untilRow(rig, SWEPT);
    expect(rig.simulator.calls.filter(isList)).toHaveLength(pages);
    await untilRow(rig, 'SELECT FROM activity WHERE athlete_id = $1 HAVING count(*) = 63', [athleteId]);
  });
});

describe('replicas', () => {
  it('share one sweep: each athlete is listed once, by one process at a time', async () => {
    const env = { PROVIDER_AUTO_SYNC_ENABLED: 'true' };
    rig = await startRig({ env, simulator: { latencyMs: 20 } });
    await untilRow(rig, SWEPT);
    for (let n = 0; n < 6; n += 1) await rig.connectAthlete();
    await untilRow(rig, SWEPT);
    rig.simulator.clearCalls();
    await rig.startReplica();
    await rig.startReplica();
    let open = 0;
    let most = 0;
    rig.simulator.on('arrival', (call) => {
      if (isList(call)) most = Math.max(most, ++open);
    });
    rig.simulator.on('call', (call) => {
      if (isList(call)) open -= 1;
    });
    await makeDue(rig);
    await untilRow(rig, SWEPT);
    const listed = rig.simulator.calls.filter(isList).map((call) => call.athleteId);
    expect([...listed].sort()).toEqual(rig.simulator.athletes.map(({ id }) => id));
    expect(most).toBe(1);
  });

  it('make one detail call for an activity that webhooks announce three times and that polling sees too', async () => {
    rig = await startRig({
      env: { SERVICE_ROLES: 'web,fetch,polling', PROVIDER_AUTO_SYNC_ENABLED: 'true', FETCH_CONCURRENCY: '2' },
      simulator: { latencyMs: 5 },
    });
    const { simulator, post } = rig;
    await rig.startReplica();
    const athleteId = await rig.connectAthlete();
    const ids: string[] = [];
    for (let round = 0; round < 8; round += 1) {
      const { id } = simulator.addActivity(athleteId);
      ids.push(id);
      const event = {
        object_type: 'activity',
        object_id: id,
        aspect_type: 'create',
        owner_id: athleteId,
        subscription_id: 1,
        event_time: Math.floor(Date.now() / 1000),
      };
      const deliveries = [post(event), makeDue(rig), post(event), post(event)];
      await Promise.all(round % 2 === 0 ? deliveries : deliveries.reverse());
      await untilRow(rig, SWEPT);
    }
    for (const id of ids) await rig.untilJob(id, ({ status }) => status === 'done');
    await makeDue(rig);
    await untilRow(rig, SWEPT);
    for (const id of ids) await rig.untilJob(id, ({ status }) => status === 'done');
    expect(ids.map((id) => simulator.calls.filter((call) => call.activityId === id).length)).toEqual(ids.map(() => 1));
  });

  it('take a sweep over from one that was killed, where it was', async () => {
    rig = await startRig({ env: { SERVICE_ROLES: 'web,fetch' } });
    const athletes: string[] = [];
    for (let n = 0; n < 4; n += 1) athletes.push(await rig.connectAthlete());
    const ids = athletes.flatMap((id) => (rig as Rig).simulator.addHistory(id, 3).map((one) => one.id));
    const port = String(await freePort());
    const environment = testEnvironment(rig.simulator.url, {
      DATABASE_URL: rig.database.url,
      PORT: port,
      SERVICE_ROLES: 'polling',
      PROVIDER_AUTO_SYNC_ENABLED: 'true',
      FETCH_TIMEOUT_MS: '500',
    });
    const hold = rig.simulator.faults.add({
      kind: 'hang',
      match: { path: /athlete\/activities/, athleteId: athletes[2] as string },
    });
    const killed = startServiceProcess(environment);
    await rig.simulator.waitForArrival((call) => isList(call) && call.athleteId === athletes[2]);
    await killed.end('SIGKILL');
    expect(killed.output()).toMatch(/polling sync worker started, every 14400000 ms, stop-after 20/);
    hold.remove();

    const successor = startServiceProcess(environment);
    await untilRow(rig, SWEPT);
    await successor.end('SIGTERM');
    const listed = rig.simulator.calls.filter(isList).map((call) => call.athleteId);
    expect(listed.filter((id) => id === athletes[0] || id === athletes[1])).toHaveLength(4);
    for (const id of ids) await rig.untilJob(id, ({ status }) => status === 'done');
    for (const id of ids) expect(rig.simulator.calls.filter((call) => call.activityId === id)).toHaveLength(1);
  });
});
