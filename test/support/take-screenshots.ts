import { mkdir, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import type { Page } from 'playwright-core';
import sharp from 'sharp';
import { startApplication } from './application.ts';
import { startBrowser } from './browser.ts';
import { openConsole, startReachableRig } from './console.ts';
import { startReceiver } from './receiver.ts';
import { ADMIN_URL_VARIABLE, RUN_ID_VARIABLE, startServerForTests } from './server-for-tests.ts';
import type { Rig } from './service.ts';
import { untilThumbnail } from './thumbnails.ts';

/** What `npm run screenshots` runs: pictures of every view of the console, for docs/screenshots. */

const FOLDER = fileURLToPath(new URL('../../docs/screenshots/', import.meta.url));
const SIZES = { wide: { width: 1280, height: 900 }, narrow: { width: 390, height: 844 } };
const SCHEMES = ['light', 'dark'] as const;
const ATHLETES = ['Ada Runner', 'Bo Rider', 'Cleo Walker', 'Dara Swimmer'];
const UNKNOWN_ACTIVITY = '9007199254740993';

const server = await startServerForTests();
process.env[ADMIN_URL_VARIABLE] = server.adminUrl;
process.env[RUN_ID_VARIABLE] = server.runId;
const rig = await startReachableRig({
  env: {
    SERVICE_ROLES: 'web',
    OUTBOUND_ALLOW_PRIVATE: 'true',
    PROVIDER_RATE_LIMIT_CAPACITY: '600',
    PROVIDER_ATHLETE_COOLDOWN: '15000',
  },
  simulator: { shortLimit: 600, dailyLimit: 30_000 },
});
const browser = await startBrowser();
const receiver = await startReceiver();
try {
  await mkdir(FOLDER, { recursive: true });
  const views = await fillService(rig);
  for (const [size, viewport] of Object.entries(SIZES)) {
    for (const colorScheme of SCHEMES) {
      const { page, close } = await openConsole(browser, rig.service.url, { context: { viewport, colorScheme } });
      for (const [name, path, word] of views) {
        await page.goto(`${rig.service.url}/admin${path}`);
        await page.locator('#view').getByText(word).first().waitFor();
        await takePicture(page, `${name}-${size}-${colorScheme}`);
      }
      await page.context().clearCookies();
      await page.goto(`${rig.service.url}/admin`);
      await page.getByLabel('Admin token').waitFor();
      await takePicture(page, `sign-in-${size}-${colorScheme}`);
      await close();
    }
  }
} finally {
  await browser.close();
  await receiver.close();
  await rig.close();
  await server.stop();
}

async function takePicture(page: Page, name: string): Promise<void> {
  await page.getByText('Live', { exact: true }).or(page.getByLabel('Admin token')).first().waitFor();
  await page.waitForLoadState('load');
  await page.waitForFunction('[...document.images].every((image) => image.complete || image.loading === "lazy")');
  const png = await page.screenshot({ animations: 'disabled' });
  await writeFile(`${FOLDER}${name}.png`, await sharp(png).png({ palette: true, effort: 10 }).toBuffer());
  process.stdout.write(`docs/screenshots/${name}.png\n`);
}

/** Lets a service live through an ordinary hour. @returns each view's name, address and a word that it shows */
async function fillService({ admin, connectAthlete, service, simulator, startReplica, untilJob }: Rig) {
  await admin('/api/admin/webhooks', { method: 'POST', body: '{}' });
  const athletes: string[] = [];
  for (const name of ATHLETES) athletes.push(await connectAthlete(name));
  const [ada = '', bo = '', cleo = '', dara = ''] = athletes;
  const roles = {
    PORT: '0',
    SERVICE_ROLES: 'fetch,thumbnail,polling',
    THUMBNAIL_MAP_SOURCE: `${simulator.url}/tiles/{z}/{x}/{y}.png`,
    PROVIDER_AUTO_SYNC_ENABLED: 'true',
  };
  const endpoints = await createEndpoints();
  const hasty = await startReplica({
    ...roles,
    SERVICE_ROLES: `${roles.SERVICE_ROLES},delivery`,
    PROVIDER_ATHLETE_COOLDOWN: '0',
  });
  const arrived: string[] = [];
  for (let n = 0; n < 24; n += 1) {
    const { id } = await simulator.createActivityAndNotify([ada, bo, cleo][n % 3] ?? ada);
    arrived.push(id);
    await untilJob(id, ({ outcome }) => outcome === 'stored');
  }
  for (const id of arrived.slice(-8)) await untilThumbnail({ service } as Rig, id).catch(ignoreIndoor);
  await seedHistory(service.database);

  await service.database.query(`UPDATE athlete SET state = 'reconnect' WHERE athlete_id = $1`, [dara]);
  const unknown = { activityId: UNKNOWN_ACTIVITY, athleteId: bo };
  await admin('/api/admin/activity-jobs', { method: 'POST', body: JSON.stringify(unknown) });
  await untilJob(UNKNOWN_ACTIVITY, ({ status }) => status === 'failed');

  const fault = simulator.faults.add({ kind: 'status', status: 503, match: { athleteId: cleo } });
  const { id: failing } = await simulator.createActivityAndNotify(cleo);
  const job = await untilJob(failing, ({ attempts }) => attempts > 0);
  fault.remove();
  await hasty.stop();
  await tidyApplication(service.database); // nothing is sent any more
  await startReplica(roles);
  simulator.addHistory(ada, 20);
  await admin(`/api/admin/athletes/${ada}/sync`, { method: 'POST', body: '{}' });
  const newest = arrived.at(-1) ?? '';
  return [
    ['overview', '', 'Webhook → stored'],
    ['jobs', '/jobs', UNKNOWN_ACTIVITY],
    ['job', `/jobs/${job.id}`, 'tried again later'],
    ['athletes', '/athletes', 'listed'],
    ['athlete', `/athletes/${ada}`, 'listed'],
    ['activities', '/activities', /km/],
    ['activity', `/activities/${newest}`, 'Elapsed time'],
    ['deliveries', '/deliveries', newest],
    ['subscriptions', '/subscriptions', 'signature'],
    ['application', '/application', 'Create token'],
    ['endpoint', `/endpoints/${endpoints.staging}`, 'HTTP 503'],
    ['processes', '/processes', 'Last seen'],
    ['audit', '/audit', 'POST webhooks'],
  ] as const;
}

/** An application with an endpoint that works, one that fails and one that is disabled, and tokens. */
async function createEndpoints(): Promise<Record<'production' | 'staging', string>> {
  receiver.answer = ({ path }) =>
    path === '/production' ? { status: 204 } : { status: 503, body: 'The deployment is under way. Try again later.' };
  const app = await startApplication(rig);
  const create = async (description: string, more: object = {}): Promise<string> =>
    (await app.call('POST', '/api/v1/endpoints', { url: `${receiver.url}/${description}`, description, ...more })).body
      .id;
  const production = await create('production');
  const staging = await create('staging', { types: ['activity.created', 'activity.deleted'] });
  await app.call('PATCH', `/api/v1/endpoints/${await create('trial')}`, { enabled: false });
  await app.call('POST', `/api/v1/endpoints/${production}/rotate`);
  for (const name of ['reports', 'former app']) {
    const body = JSON.stringify({ name, scope: 'read' });
    await rig.admin('/api/admin/api-tokens', { method: 'POST', body });
  }
  await rig.admin('/api/admin/api-tokens/3', { method: 'DELETE' });
  return { production, staging };
}

/** Names and addresses as they are in production. */
async function tidyApplication(database: Rig['service']['database']): Promise<void> {
  await database.query(`UPDATE endpoint SET url = 'https://' || description || '.app.example.com/hook'`);
  await database.query(`UPDATE api_token SET name = 'app' WHERE name = 'test application'`);
}

function ignoreIndoor(error: Error): void {
  process.stderr.write(`${error.message}\n`);
}

/** An hour before the service was started, so that the charts have something to show. */
async function seedHistory(database: Rig['service']['database']): Promise<void> {
  await database.query(
    `INSERT INTO history (minute, measure, bucket, n)
     SELECT date_trunc('minute', sync_now()) - m * interval '1 minute', measure, bucket, n
     FROM generate_series(2, 180) AS m, LATERAL (VALUES
       ('finished:stored', 0::float8, (6 + 4 * sin(m / 9.0) + m * 7 % 4)::bigint),
       ('finished:retry', 0, CASE WHEN m % 23 = 0 THEN 2 ELSE 0 END),
       ('finished:failed', 0, CASE WHEN m % 41 = 0 THEN 1 ELSE 0 END),
       ('stored', 0.1, (5 + 3 * sin(m / 9.0))::bigint), ('stored', 0.25, m % 3), ('stored', 0.5, (m % 7) / 5),
       ('wait:webhook', 0.025, 5 + m % 4), ('wait:webhook', 0.1, (m % 5) / 2)
     ) AS v (measure, bucket, n) WHERE n > 0
     ON CONFLICT DO NOTHING`,
  );
}
