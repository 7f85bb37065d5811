import { afterEach, describe, expect, it } from '@jest/globals';
import type { Reason } from '../../src/domain/job.ts';
import { requestFetches } from '../../src/queue/requests.ts';
import { type Rig, startRig } from '../support/service.ts';

describe('the next job by priority', () => {
  let rig: Rig;
  afterEach(() => rig.close());

  const ask = async (athleteId: string, jobs: number, reason: Reason): Promise<string[]> => {
    const { database } = rig.service;
    const ids = Array.from({ length: jobs }, () => rig.simulator.addActivity(athleteId).id);
    const requests = ids.map((activityId) => ({ activityId, athleteId, reason, force: false }));
    await database.transaction((tx) => requestFetches(rig.service.boss, tx, requests));
    return ids;
  };
  const fetched = () => rig.simulator.calls.filter((call) => call.path.startsWith('/api/v3/activities/'));

  it('an athlete with hundreds of waiting jobs delays no other by more than one job', async () => {
    rig = await startRig({ env: { SERVICE_ROLES: 'web', PROVIDER_ATHLETE_COOLDOWN: '0' } });
    const heavy: string[] = [];
    const light: string[] = [];
    for (let n = 0; n < 5; n += 1) heavy.push(await rig.connectAthlete(`heavy ${n}`));
    for (let n = 0; n < 40; n += 1) light.push(await rig.connectAthlete(`light ${n}`));
    for (const athleteId of heavy) await ask(athleteId, 200, 'manual');
    const wanted: string[] = [];
    for (const athleteId of light) wanted.push(...(await ask(athleteId, 1, 'manual')));

    await rig.startReplica({ SERVICE_ROLES: 'fetch' });
    for (const activityId of wanted) await rig.untilJob(activityId, (job) => job.status === 'done', 30_000);

    const order = fetched();
    const last = Math.max(...wanted.map((id) => order.findIndex((call) => call.activityId === id)));
    // The 40, one job of each of the five, and what ran in the other slots.
    expect(last + 1).toBeLessThanOrEqual(40 + 5 + 3);
  }, 60_000);

  it('webhooks go before manual before polling', async () => {
    rig = await startRig({ env: { SERVICE_ROLES: 'web', FETCH_CONCURRENCY: '1' } });
    const athletes = [await rig.connectAthlete('a'), await rig.connectAthlete('b'), await rig.connectAthlete('c')];
    const polling = await ask(athletes[0] ?? '', 1, 'polling');
    const manual = await ask(athletes[1] ?? '', 1, 'manual');
    const webhook = await ask(athletes[2] ?? '', 1, 'webhook');
    await rig.startReplica({ SERVICE_ROLES: 'fetch', FETCH_CONCURRENCY: '1' });
    for (const id of [...polling, ...manual, ...webhook]) await rig.untilJob(id, (job) => job.status === 'done');
    expect(fetched().map((call) => call.activityId)).toEqual([...webhook, ...manual, ...polling]);
  });

  it('a new activity runs before its own athlete’s backlog', async () => {
    rig = await startRig({ env: { SERVICE_ROLES: 'web' } });
    const athleteId = await rig.connectAthlete('one');
    await ask(athleteId, 100, 'manual');
    const [fresh = ''] = await ask(athleteId, 1, 'webhook');
    await rig.startReplica({ SERVICE_ROLES: 'fetch', FETCH_CONCURRENCY: '1' });
    await rig.untilJob(fresh, (job) => job.status === 'done');
    expect(fetched()[0]?.activityId).toBe(fresh);
  });
});
