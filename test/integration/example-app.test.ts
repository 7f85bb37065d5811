import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { type App, startApp } from '../../examples/app/app.ts';
import { type Application, startApplication } from '../support/application.ts';
import { type Rig, startRig } from '../support/service.ts';
import { until } from '../support/until.ts';
import { applicationPart, CLIENT_TYPES, headOf } from '../support/write-client-types.ts';

let rig: Rig;
let folder: string;
let application: Application;
let app: App;
const start = () =>
  startApp({ service: rig.service.url, token: application.token, port: 0, file: join(folder, 'app.db') });

beforeAll(async () => {
  rig = await startRig({ env: { OUTBOUND_ALLOW_PRIVATE: 'true' } });
  rig.simulator.subscribe(`${rig.service.url}/api/provider/webhook`);
  application = await startApplication(rig);
  folder = await mkdtemp(join(tmpdir(), 'example-app-'));
  app = await start();
});
afterAll(async () => {
  await app.stop();
  await rig.close();
  await rm(folder, { recursive: true, force: true });
});

const sameAddress = async () => ({
  token: application.token,
  port: Number(new URL(app.url).port),
  file: join(folder, 'app.db'),
});
const names = () => app.activities().map(({ name }) => name);

describe('the example application', () => {
  it('has a new activity of its user within moments of the provider’s webhook', async () => {
    const athleteId = await rig.connectAthlete('Ada Runner');
    await rig.simulator.createActivityAndNotify(athleteId, { name: 'First' });
    await until(() => names().includes('First'), 'the activity on the application’s side');
  });

  it('follows an edit and a deletion, and removes an athlete who disconnects', async () => {
    const athleteId = await rig.connectAthlete('Bo Rider');
    const { id } = await rig.simulator.createActivityAndNotify(athleteId, { name: 'Second' });
    await until(() => names().includes('Second'), 'the activity');
    await rig.simulator.updateActivityAndNotify(id, { name: 'Renamed' });
    await until(() => names().includes('Renamed'), 'the new name');
    await rig.simulator.deleteActivityAndNotify(id);
    await until(() => !names().includes('Renamed'), 'the deletion');
    await rig.simulator.createActivityAndNotify(athleteId, { name: 'Third' });
    await until(() => names().includes('Third'), 'another activity');
    await application.call('DELETE', `/api/v1/athletes/${athleteId}`);
    await until(() => !names().includes('Third'), 'the erasure');
  });

  it('has after a restart what was added and removed while it was down', async () => {
    const athleteId = await rig.connectAthlete('Cleo Walker');
    const { id } = await rig.simulator.createActivityAndNotify(athleteId, { name: 'Goes' });
    await until(() => names().includes('Goes'), 'the activity');
    await app.stop();
    await rig.simulator.deleteActivityAndNotify(id);
    const { id: next } = await rig.simulator.createActivityAndNotify(athleteId, { name: 'Comes' });
    await rig.untilJob(next, ({ status }) => status === 'done');
    await rig.untilJob(id, ({ outcome }) => outcome === 'deleted');
    app = await start();
    expect(names()).toEqual(expect.arrayContaining(['First', 'Comes']));
    expect(names()).not.toContain('Goes');
  });

  it('refuses what is not signed, or signed with another secret', async () => {
    const before = names();
    for (const headers of [
      {},
      { 'webhook-id': 'x', 'webhook-timestamp': String(Math.floor(Date.now() / 1000)), 'webhook-signature': 'v1,AAAA' },
    ]) {
      const answer = await fetch(`${app.url}/hook`, {
        method: 'POST',
        body: '{}',
        headers: headers as Record<string, string>,
      });
      expect([answer.status, (await answer.text()).length > 0]).toEqual([401, true]);
    }
    expect(names()).toEqual(before);
  });

  it('sends its user to the provider through a connect link', async () => {
    const refused = await fetch(`${app.url}/connect?user=ada`, { redirect: 'manual' });
    expect([refused.status, await refused.text()]).toEqual([502, expect.stringContaining('RETURN_ORIGINS')]);
    const replica = await rig.startReplica({ RETURN_ORIGINS: app.url, SERVICE_ROLES: 'web' });
    await app.stop();
    app = await startApp({ ...(await sameAddress()), service: replica.url });
    const sent = await fetch(`${app.url}/connect?user=ada`, { redirect: 'manual' });
    expect([sent.status, sent.headers.get('location')]).toEqual([
      302,
      expect.stringContaining('/api/provider/connect?link='),
    ]);
    await app.stop();
    await replica.stop();
    app = await start();
  });

  it('has the interface’s current types: npm run client:types has been run', async () => {
    const document = await (await fetch(`${rig.service.url}/api/openapi.json`)).json();
    expect((await readFile(CLIENT_TYPES, 'utf8')).split('\n')[0]).toBe(
      headOf(applicationPart(document as never)).trim(),
    );
  });
});
