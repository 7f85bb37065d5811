import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { Browser, Page } from 'playwright-core';
import { Webhook } from 'standardwebhooks';
import { type Application, applicationWith, startApplication } from '../support/application.ts';
import { PLAIN_HOST, startBrowser } from '../support/browser.ts';
import { type ConsolePage, findBarriers, NARROW, openConsole, startReachableRig } from '../support/console.ts';
import { type Receiver, startReceiver } from '../support/receiver.ts';
import { READ_TOKEN, type Rig } from '../support/service.ts';
import { until } from '../support/until.ts';

let rig: Rig;
let browser: Browser;
let app: Application;
let receiver: Receiver;
let athleteId: string;
let opened: ConsolePage;
let page: Page;

beforeAll(async () => {
  [rig, browser, receiver] = await Promise.all([
    startReachableRig({ env: { OUTBOUND_ALLOW_PRIVATE: 'true' } }),
    startBrowser(),
    startReceiver(),
  ]);
  app = await startApplication(rig);
  rig.simulator.subscribe(`${rig.service.url}/api/provider/webhook`);
  athleteId = await rig.connectAthlete('Ada Runner');
}, 60_000);
afterAll(async () => {
  await browser?.close();
  await receiver?.close();
  await rig?.close();
});
beforeEach(async () => {
  receiver.answer = () => ({ status: 200 });
  opened = await openConsole(browser, rig.service.url);
  page = opened.page;
});
afterEach(async () => {
  await opened.close();
  expect(opened.faults).toEqual([]);
  for (const { id } of (await app.call('GET', '/api/v1/endpoints')).body.endpoints)
    await app.call('DELETE', `/api/v1/endpoints/${id}`);
});

const open = (path: string) => page.goto(`${rig.service.url}/admin${path}`);
const press = (name: string) => page.getByRole('button', { name, exact: true }).click();
const told = (text: string | RegExp) => page.getByRole('status').getByText(text).waitFor();
const dialog = () => page.getByRole('dialog');
const confirm = (name: string) => dialog().getByRole('button', { name, exact: true }).click();
/** Puts a secret away. @returns what it was */
const storeSecret = async (): Promise<string> => {
  const secret = await dialog().locator('code').textContent();
  await confirm('I have stored it');
  await dialog().waitFor({ state: 'hidden' });
  return secret ?? '';
};
const heading = (name: string) => page.getByRole('heading', { level: 1, name }).waitFor();
const rows = (table: string) => page.getByRole('table', { name: table }).locator('tbody tr');

const createEndpoint = async (more: object = {}): Promise<{ id: string; secret: string }> => {
  const { body } = await app.call('POST', '/api/v1/endpoints', { url: `${receiver.url}/hook`, ...more });
  return body;
};
const untilAttempts = (endpointId: string, count: number) =>
  until(
    async () => (await app.call('GET', `/api/v1/endpoints/${endpointId}/attempts`)).body.attempts.length >= count,
    `${count} attempts`,
  );
/** Sends tests one after the other. */
const attempt = async (endpointId: string, count = 1) => {
  for (let n = 1; n <= count; n += 1) {
    await app.call('POST', `/api/v1/endpoints/${endpointId}/test`);
    await untilAttempts(endpointId, n);
  }
};
/** An activity arrives by a webhook and is stored. */
const arrive = async (): Promise<string> => {
  const { id } = await rig.simulator.createActivityAndNotify(athleteId);
  await rig.untilJob(id, ({ outcome }) => outcome === 'stored');
  return id;
};
const isVerified = ({ text, headers }: Receiver['calls'][number], secret: string): boolean => {
  try {
    new Webhook(secret).verify(text, headers as Record<string, string>);
    return true;
  } catch {
    return false;
  }
};
/** Whatever outlives the page: where a secret must never be. */
const whatIsKept = () =>
  page.evaluate('JSON.stringify([location.href, history.state, { ...localStorage }, { ...sessionStorage }])');

describe('an endpoint', () => {
  it('is created with a form, its secret is shown only once, and it receives what it requested', async () => {
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    await open('/application');
    await page.getByRole('link', { name: 'Application', exact: true }).and(page.locator('[aria-current]')).waitFor();
    await page.getByText('Create an endpoint').click();
    await page.getByLabel('Address').fill(`${receiver.url}/created`);
    await page.getByLabel('Description (optional)').fill('of the tests');
    await page.getByLabel('activity.created').check();
    await page.getByLabel(/^Athletes/).fill(`${athleteId}, 9007199254740993`);
    await press('Create endpoint');
    expect(await dialog().locator('code').textContent()).toMatch(/^whsec_/);
    expect(await findBarriers(page)).toEqual([]);
    await page.keyboard.press('Escape'); // does not close it
    await confirm('Copy');
    await dialog().getByText('Copied.').waitFor();
    const secret = await storeSecret();
    expect(await page.evaluate('navigator.clipboard.readText()')).toBe(secret);
    await heading('Endpoint ');
    await page.getByText('9007199254740993').first().waitFor();
    expect(await page.content()).not.toContain(secret);
    expect(await whatIsKept()).not.toContain(secret);

    const before = receiver.calls.length;
    const id = await arrive();
    await page
      .getByRole('row', { name: /activity\.created/ })
      .getByRole('link', { name: id })
      .waitFor();
    const call = receiver.calls.slice(before).find(({ path }) => path === '/created');
    expect(call && isVerified(call, secret)).toBe(true);
  });

  it('that nothing may be sent to is refused, and the form keeps what was typed', async () => {
    await open('/application');
    await page.getByText('Create an endpoint').click();
    await page.getByLabel('Address').fill('https://user:password@example.com/');
    await press('Create endpoint');
    await page.getByRole('alert').getByText(/^url /).waitFor();
    expect(await page.getByLabel('Address').inputValue()).toBe('https://user:password@example.com/');
    expect(opened.faults.splice(0)).toEqual([expect.stringMatching(/^400 POST .*\/api\/v1\/endpoints$/)]);
  });

  it('is sent a test, whose attempt appears with status, duration and answer, and is resent', async () => {
    const { id } = await createEndpoint();
    receiver.answer = () => ({ status: 503, body: 'The deployment is under way.' });
    await open(`/endpoints/${id}`);
    await page.getByText('Nothing has been sent yet.').waitFor();
    await press('Send test');
    await told('Test queued; its attempt appears below.');
    await untilAttempts(id, 1);
    // It is not retried during the test.
    await rig.service.database.query('UPDATE delivery SET state = $2, job_id = NULL WHERE endpoint_id = $1', [
      id,
      'exhausted',
    ]);
    const row = rows('Attempts').first();
    await row.getByText('retry', { exact: true }).first().waitFor();
    await row.getByText('HTTP 503').click();
    await row.getByText('The deployment is under way.').waitFor();
    await page.getByText('Every delivery has failed so far.').waitFor();
    await page.getByText('0% of 1').waitFor();
    const runbook = await page.getByRole('link', { name: 'delivery runbook' }).getAttribute('href');
    expect((await page.request.get(`${rig.service.url}${runbook}`)).status()).toBe(200);

    receiver.answer = () => ({ status: 200 });
    await page.getByRole('button', { name: /^Resend what attempt/ }).click();
    await told('Queued again, behind what waits for that athlete.');
    await rows('Attempts').first().getByText('delivered').first().waitFor();
    await page.getByText('50% of 2').waitFor();
  });

  it('has its attempts in pages, filtered by result', async () => {
    const { id } = await createEndpoint();
    await attempt(id);
    await rig.service.database.query(
      `INSERT INTO delivery_attempt (delivery_id, endpoint_id, duration_ms, status, result)
       SELECT d.id, d.endpoint_id, n, CASE WHEN n = 7 THEN 500 ELSE 200 END, CASE WHEN n = 7 THEN 'exhausted' ELSE 'delivered' END
       FROM delivery d, generate_series(1, 60) n WHERE d.endpoint_id = $1`,
      [id],
    );
    await open(`/endpoints/${id}`);
    await until(async () => (await rows('Attempts').count()) === 50, 'the first page');
    await page.getByRole('link', { name: 'Older »' }).click();
    await until(async () => (await rows('Attempts').count()) === 11, 'the second page');
    await page.getByRole('link', { name: 'exhausted', exact: true }).click();
    await until(async () => (await rows('Attempts').count()) === 1, 'the one that failed');
    await rows('Attempts').getByText('HTTP 500').waitFor();
    expect(page.url()).toMatch(/\?result=exhausted$/);
    await page.getByText('98% of 61').waitFor();
  });

  it('gets a new secret, shown only once with the time until which the former one is valid', async () => {
    const { id, secret: former } = await createEndpoint();
    await open(`/endpoints/${id}`);
    await press('Rotate secret');
    await dialog().getByText('For a day deliveries are signed with both').waitFor();
    await confirm('Rotate');
    await dialog()
      .getByText(/The former one stays valid until .+\d\d:\d\d/)
      .waitFor();
    const secret = await storeSecret();
    expect(secret).toMatch(/^whsec_/);
    expect(secret).not.toBe(former);
    await page.getByText(/^signs too until/).waitFor();
    expect(await whatIsKept()).not.toContain(secret);
    const before = receiver.calls.length;
    await attempt(id);
    const call = receiver.calls[before] as Receiver['calls'][number];
    expect([former, secret].map((one) => isVerified(call, one))).toEqual([true, true]);
    await press('Rotate secret');
    await dialog().getByText('it stops now').waitFor();
    await confirm('Cancel');
  });

  it('is changed, disabled and enabled, and deleted only after a confirmation', async () => {
    const { id } = await createEndpoint();
    await open(`/endpoints/${id}`);
    await page.getByText('Change what it is sent').click();
    await page.getByLabel('activity.deleted').check();
    await press('Save');
    await told(`Endpoint ${id} changed.`);
    await page.getByRole('definition').getByText('activity.deleted').waitFor();

    await press('Disable');
    await confirm('Disable');
    await page.getByText('This endpoint was disabled by request. Enable it to resume.').waitFor();
    expect(await page.getByRole('button', { name: 'Send test' }).isDisabled()).toBe(true);
    await press('Enable');
    await told(`Endpoint ${id} enabled; it now receives what it missed.`);
    await page.getByText('enabled', { exact: true }).waitFor();

    await press('Delete');
    expect(await dialog().getByRole('button', { name: 'Delete' }).getAttribute('class')).toBe('danger');
    await page.keyboard.press('Escape');
    await dialog().waitFor({ state: 'hidden' });
    expect((await app.call('GET', `/api/v1/endpoints/${id}`)).status).toBe(200);
    await press('Delete');
    await confirm('Delete');
    await told(`Endpoint ${id} deleted.`);
    await heading('Application');
    expect((await app.call('GET', `/api/v1/endpoints/${id}`)).status).toBe(404);
  });

  it('is sent everything again since a time', async () => {
    const { id } = await createEndpoint({ types: ['activity.created'] });
    const arrived = await arrive();
    const isOfIt = ({ body }: Receiver['calls'][number]) => body.data.activityId === arrived;
    await until(() => receiver.calls.some(isOfIt), 'the delivery');
    await open(`/endpoints/${id}`);
    await rows('Attempts').first().waitFor();
    const anHourAgo = await page.evaluate(
      `(() => { const at = new Date(Date.now() - 3600000); at.setMinutes(at.getMinutes() - at.getTimezoneOffset()); return at.toISOString().slice(0, 16); })()`,
    );
    await page.getByLabel(/^Everything since/).fill(String(anHourAgo));
    await press('Replay');
    await dialog().getByText('is sent to endpoint').waitFor();
    await confirm('Replay');
    await told(/\d+ changes? queued\./);
    await until(() => receiver.calls.filter(isOfIt).length === 2, 'the replay');
  });
});

describe('a token', () => {
  it('is created, shown only once, used, and revoked only after a confirmation', async () => {
    await open('/application');
    await page.getByLabel('Application', { exact: true }).fill('night app');
    await page.getByLabel('May').selectOption('write');
    await press('Create token');
    const token = await storeSecret();
    expect(token).toMatch(/^ast_/);
    expect(await whatIsKept()).not.toContain(token);
    expect(await page.content()).not.toContain(token);
    const night = applicationWith(rig, token);
    expect((await night.call('GET', '/api/v1/endpoints')).status).toBe(200);

    const row = rows('Tokens').filter({ hasText: 'night app' });
    await row.getByText('write', { exact: true }).waitFor();
    await press('Revoke night app');
    expect(await dialog().getByRole('button', { name: 'Revoke' }).getAttribute('class')).toBe('danger');
    await confirm('Cancel');
    expect((await night.call('GET', '/api/v1/endpoints')).status).toBe(200);
    await press('Revoke night app');
    await confirm('Revoke');
    await told('Token of night app revoked.');
    await row.getByRole('button').waitFor({ state: 'hidden' });
    expect(await row.getByRole('cell').nth(4).textContent()).toMatch(/ago|now/);
    expect((await night.call('GET', '/api/v1/endpoints')).status).toBe(401);
  });

  it('is copied also where a browser has no clipboard for the page', async () => {
    const plain = await openConsole(browser, `http://${PLAIN_HOST}:${new URL(rig.service.url).port}`, {
      at: '/application',
    });
    expect(await plain.page.evaluate('navigator.clipboard')).toBeUndefined();
    await plain.page.getByLabel('Application', { exact: true }).fill('plain app');
    await plain.page.getByRole('button', { name: 'Create token' }).click();
    await plain.page.getByRole('button', { name: 'Copy' }).click();
    await plain.page.getByText('Copied.').waitFor();
    await plain.close();
    expect(plain.faults).toEqual([]);
  });
});

describe('who was told', () => {
  it('is on the activity’s page, with a link to the endpoint', async () => {
    const { id } = await createEndpoint({ types: ['activity.created'] });
    const activityId = await arrive();
    await open(`/activities/${activityId}`);
    const card = page.locator('section', { has: page.getByRole('heading', { name: 'Who was told' }) });
    const created = card.getByRole('listitem').filter({ hasText: 'activity.created' }).first();
    await created.getByText('delivered').waitFor();
    await created.getByText('1 attempt').waitFor();
    await card.getByText('Sent to no endpoint.').first().waitFor(); // its picture, which the endpoint does not want
    await created.getByRole('link', { name: `${receiver.url}/hook` }).click();
    await heading(`Endpoint ${id}`);
  });

  it('of an athlete is the application’s own id for them', async () => {
    await rig.service.database.query('UPDATE athlete SET external_id = $2 WHERE athlete_id = $1', [
      athleteId,
      'user-17',
    ]);
    await open(`/athletes/${athleteId}`);
    await page.getByText('user-17').waitFor();
  });
});

describe('the pages of the application', () => {
  it('show each state of an endpoint, and no barrier that axe finds', async () => {
    const well = await createEndpoint({ description: 'production', types: ['athlete.disconnected'] });
    await attempt(well.id, 2);
    receiver.answer = () => ({ status: 500, body: 'x'.repeat(2000) });
    const failing = await createEndpoint({ url: `${receiver.url}/a-long-path/that-must-break-somewhere/on-a-phone` });
    await attempt(failing.id);
    const off = await createEndpoint();
    await app.call('PATCH', `/api/v1/endpoints/${off.id}`, { enabled: false });
    const activityId = await arrive();
    for (const context of [{ colorScheme: 'light' as const }, { colorScheme: 'dark' as const, viewport: NARROW }]) {
      const shown = await openConsole(browser, rig.service.url, { context });
      for (const [path, ...words] of [
        ['/application', '100% of 2', 'failing', 'by request', 'test application'],
        [`/endpoints/${well.id}`, 'delivered'],
        [`/endpoints/${failing.id}`, 'HTTP 500'],
        [`/activities/${activityId}`, 'waiting'],
      ]) {
        await shown.page.goto(`${rig.service.url}/admin${path}`);
        for (const word of words)
          await shown.page.locator('#view').getByText(word).locator('visible=true').first().waitFor();
        for (const details of await shown.page.locator('summary').all()) await details.click();
        expect([path, await findBarriers(shown.page)]).toEqual([path, []]);
        const widest = await shown.page.evaluate('document.documentElement.scrollWidth - innerWidth');
        expect([path, widest]).toEqual([path, 0]);
      }
      await shown.close();
      expect(shown.faults).toEqual([]);
    }
  }, 60_000);

  it('offer no change to the read-only token', async () => {
    const { id } = await createEndpoint();
    await attempt(id);
    const reader = await openConsole(browser, rig.service.url, { token: READ_TOKEN, at: '/application' });
    const buttons = reader.page.locator('#view').getByRole('button');
    await reader.page.getByRole('table', { name: 'Tokens' }).waitFor();
    expect(await buttons.count()).toBe(0);
    await reader.page.getByRole('link', { name: `${receiver.url}/hook` }).click();
    await reader.page.getByRole('table', { name: 'Attempts' }).waitFor();
    expect(await buttons.allTextContents()).toEqual(['Filter']);
    await reader.close();
    expect(reader.faults).toEqual([]);
  });
});
