import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { notify } from '../../src/infra/notify.ts';
import { ask } from '../support/admin.ts';
import { keepLog } from '../support/kept-log.ts';
import { SWEPT } from '../support/polling.ts';
import { ENCRYPTION_KEY, type Rig, startRig } from '../support/service.ts';
import { until } from '../support/until.ts';

let rig: Rig;
const { logger, lines } = keepLog('debug', [ENCRYPTION_KEY]);
beforeAll(async () => {
  rig = await startRig({ logger, env: { SERVICE_ROLES: 'web,polling', PROVIDER_AUTO_SYNC_ENABLED: 'true' } });
});
afterAll(() => rig.close());

const PATH = /athlete\/activities/;

describe('an athlete who is erased while a sweep reads their list', () => {
  it('is named in no line of the log after that, when the list is refused', async () => {
    const { database } = rig.service;
    const athleteId = await rig.connectAthlete();
    await until(async () => (await database.query(SWEPT)).length === 1, 'the end of what was polled before');
    rig.simulator.addHistory(athleteId, 1);
    rig.simulator.revoke(athleteId); // the held answer is a 401
    const held = rig.simulator.faults.add({ kind: 'hold', match: { path: PATH }, times: 1 });
    await database.query(`UPDATE list_walk SET finished_at = '-infinity' WHERE kind = 'polling'`);
    await notify(database, 'polling');
    await held.held;
    expect((await ask(rig, 'DELETE', `/api/admin/athletes/${athleteId}`)).status).toBe(200);
    lines.splice(0);
    held.release();
    // Written a moment after the sweep has ended in the database.
    await until(() => lines.join('').includes('polling sweep'), 'the line of the end of the sweep');
    expect(await database.query(SWEPT)).toHaveLength(1);
    expect(lines.filter((line) => line.includes(athleteId))).toEqual([]);
  });
});
