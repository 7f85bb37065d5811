import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import type { Browser, Page } from 'playwright-core';
import { startBrowser } from '../support/browser.ts';
import { type ConsolePage, findBarriers, openConsole, startReachableRig } from '../support/console.ts';
import { type Rig, startRig } from '../support/service.ts';

let browser: Browser;
let rig: Rig | undefined;
let opened: ConsolePage | undefined;

beforeAll(async () => {
  browser = await startBrowser();
}, 60_000);
afterAll(() => browser?.close());
afterEach(async () => {
  await opened?.close();
  await rig?.close();
  opened = undefined;
  rig = undefined;
}, 30_000);

async function open(at = ''): Promise<Page> {
  opened = await openConsole(browser, (rig as Rig).service.url, { at });
  return opened.page;
}
const health = (page: Page) => page.locator('.health');

describe('the health banner', () => {
  it('is not green without a subscription or an athlete, and links to what is missing', async () => {
    rig = await startRig({ subscriptions: [] });
    const page = await open();
    await health(page).getByText('No webhook can arrive: there is no subscription.').waitFor();
    await health(page).getByText('Nothing can arrive: no athlete is connected.').waitFor();
    expect(await page.getByText('All is well').count()).toBe(0);
    expect(await findBarriers(page)).toEqual([]);
    const runbook = health(page).getByRole('link', { name: 'webhook runbook' }).first();
    const read = await page.request.get(new URL((await runbook.getAttribute('href')) as string, page.url()).href);
    expect(await read.text()).toContain('# Webhook runbook');
    await health(page).getByRole('link', { name: 'No webhook can arrive' }).click();
    await page.getByRole('heading', { level: 1, name: 'Subscriptions' }).waitFor();
  }, 60_000);

  it('is not green while the doctor finds faults: the public address does not answer', async () => {
    rig = await startRig({ env: { NEXT_PUBLIC_BASE_URL: 'http://127.0.0.1:9' } });
    await rig.connectAthlete();
    rig.simulator.subscribe(`${rig.service.url}/api/provider/webhook`);
    await rig.admin('/api/admin/webhooks');
    const page = await open();
    await health(page)
      .getByText(/^The doctor found \d faults? that can keep webhooks away: .*handshake/)
      .waitFor();
    expect(await page.getByText('All is well').count()).toBe(0);
  }, 60_000);

  it('turns red while 90 % of the fetches fail, although some succeed', async () => {
    rig = await startReachableRig({ env: { FETCH_BACKOFF_BASE_MS: '60000' } });
    const { simulator } = rig;
    await rig.admin('/api/admin/webhooks', { method: 'POST', body: '{}' });
    const athleteId = await rig.connectAthlete();
    const page = await open();
    await health(page).getByText('All is well').waitFor();
    const ids = Array.from({ length: 10 }, () => simulator.addActivity(athleteId).id);
    for (const activityId of ids.slice(1)) simulator.faults.add({ kind: 'status', status: 503, match: { activityId } });
    for (const activityId of ids)
      await rig.admin('/api/admin/activity-jobs', { method: 'POST', body: JSON.stringify({ activityId, athleteId }) });
    for (const id of ids.slice(1)) await rig.untilJob(id, ({ attempts }) => attempts > 0);
    await rig.untilJob(ids[0] as string, ({ outcome }) => outcome === 'stored');
    await health(page)
      .getByText(/^Fetches are failing: 9 of 10 in the last five minutes \(90%\), failing since \d\d:\d\d/)
      .waitFor({ timeout: 30_000 });
    expect(await health(page).getAttribute('class')).toContain('bad');
    expect(await findBarriers(page)).toEqual([]);
  }, 90_000);
});

describe('while the database is cut off', () => {
  const VIEWS = ['', '/jobs', '/athletes', '/activities', '/deliveries', '/audit'];

  it('the header and every view say within 5 s since when they are not updated, and recover without a reload', async () => {
    rig = await startRig({ proxied: true });
    await rig.connectAthlete();
    const { url } = rig.service;
    const consoles = await Promise.all(VIEWS.map((at) => openConsole(browser, url, { at })));
    try {
      const pages = consoles.map(({ page }) => page);
      const isLive = (page: Page) => page.getByText('Live', { exact: true }).waitFor({ timeout: 20_000 });
      const said = async (page: Page) => {
        const isOld = /^Not updated since \d\d:\d\d:\d\d/;
        await page.getByRole('alert').getByText(isOld).waitFor();
        await page.locator('header .silent').getByText(isOld).waitFor();
        await page
          .getByText(/trying again/)
          .first()
          .waitFor();
        return Date.now();
      };
      await Promise.all(pages.map(isLive));
      rig.proxy.cut();
      const cutAt = Date.now();
      for (const saidAt of await Promise.all(pages.map(said))) expect(saidAt - cutAt).toBeLessThan(5000);
      for (const page of pages) expect(await page.getByText('All is well').count()).toBe(0);
      rig.proxy.restore();
      await Promise.all(pages.map(isLive));
      for (const page of pages) expect(await page.getByText('Not updated since').count()).toBe(0);
    } finally {
      await Promise.all(consoles.map((one) => one.close()));
    }
  }, 60_000);
});
