import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { type SyncRig, startSyncRig } from '../support/sync-rig.ts';

let rig: SyncRig;
beforeAll(async () => {
  rig = await startSyncRig();
});
afterAll(() => rig.close());
afterEach(() => rig.simulator.faults.clear());

describe('cancelling', () => {
  it('stops the listing and removes the jobs that have not started, but none that others requested', async () => {
    const athleteId = await rig.connectAthlete();
    const ids = rig.simulator.addHistory(athleteId, 250).map(({ id }) => id);
    const hold = rig.simulator.faults.add({ kind: 'hold', match: { path: /activities\/\d/, athleteId } });
    const list = { path: /athlete\/activities/, athleteId };
    rig.simulator.faults.add({ kind: 'latency', match: list, times: 1 }); // the first page comes
    const second = rig.simulator.faults.add({ kind: 'hold', match: list });
    const url = await rig.beginSync(`/api/admin/athletes/${athleteId}/sync`);
    await second.held;
    expect(await rig.untilSync(url, ({ queued }) => queued > 0)).toMatchObject({ queued: 200, total: null });
    const wanted = ids.at(-1) as string; // on the first page, and the last to be fetched
    await rig.post({
      object_type: 'activity',
      object_id: wanted,
      aspect_type: 'create',
      owner_id: athleteId,
      subscription_id: 1,
      event_time: 1_746_000_000,
    });
    const cancelled = await rig.admin(`${url}/cancel`, { method: 'POST' });
    expect(cancelled.status).toBe(200);
    expect(await cancelled.json()).toMatchObject({ state: 'cancelled', expectedEnd: null });
    const pages = second.hits;
    second.release();
    await untilRows(
      `SELECT FROM activity_fetch_job WHERE athlete_id = $1 AND reason = 'manual' AND outcome IS NULL`,
      athleteId,
      (left) => left <= 6,
    );
    hold.release();
    await untilRows(
      'SELECT FROM activity_fetch_job WHERE athlete_id = $1 AND outcome IS NULL',
      athleteId,
      (left) => left === 0,
    );
    expect(second.hits).toBe(pages);
    expect(await (await rig.admin(url)).json()).toMatchObject({ state: 'cancelled', listed: 200, queued: 200 });
    expect(rig.detailCalls(wanted)).toBe(1);
    expect(ids.filter((id) => rig.detailCalls(id) > 0).length).toBeLessThanOrEqual(7);
    const queue = await rig.service.database.query(`SELECT FROM fetch_queue() f WHERE f.waiting`);
    expect(queue).toHaveLength(0);

    expect((await rig.admin(`${url}/cancel`, { method: 'POST' })).status).toBe(200);
    expect(await rig.syncAthlete(athleteId)).toMatchObject({ state: 'finished', listed: 250 });
    expect(ids.map(rig.detailCalls)).toEqual(ids.map(() => 1));
  });

  it('is refused for a sync that has ended', async () => {
    const athleteId = await rig.connectAthlete();
    const { url } = await rig.syncAthlete(athleteId);
    expect((await rig.admin(`${url}/cancel`, { method: 'POST' })).status).toBe(409);
  });
});

async function untilRows(query: string, athleteId: string, fits: (rows: number) => boolean): Promise<void> {
  while (!fits((await rig.service.database.query(query, [athleteId])).length)) {
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
