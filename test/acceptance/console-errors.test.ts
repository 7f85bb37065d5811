import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { Browser, Page, Route } from 'playwright-core';
import { startBrowser } from '../support/browser.ts';
import { type ConsolePage, findBarriers, openConsole, startReachableRig } from '../support/console.ts';
import { ADMIN_TOKEN, type Rig } from '../support/service.ts';

let rig: Rig;
let browser: Browser;
let opened: ConsolePage;
let page: Page;

beforeAll(async () => {
  [rig, browser] = await Promise.all([startReachableRig(), startBrowser()]);
  await rig.admin('/api/admin/webhooks', { method: 'POST', body: '{}' });
  await rig.connectAthlete();
}, 60_000);
afterAll(async () => {
  await browser?.close();
  await rig?.close();
});
beforeEach(async () => {
  opened = await openConsole(browser, rig.service.url);
  page = opened.page;
});
afterEach(() => opened.close());

const press = (name: string) => page.getByRole('button', { name, exact: true }).click();
const LIST = /\/api\/admin\/webhooks$/;
const LONG_MS = 60_000;

/** Opens the subscriptions with a clock that a test moves on. @returns the reads of their list so far */
async function openSubscriptions(): Promise<string[]> {
  const reads: string[] = [];
  page.on('request', (request) => {
    if (LIST.test(request.url())) reads.push(request.method());
  });
  await page.clock.install();
  await page.goto(`${rig.service.url}/admin/subscriptions`);
  return reads;
}
const untilListed = () => page.getByRole('button', { name: /^Delete subscription/ }).waitFor();

describe('a read that failed', () => {
  it('is repeated only on request where the provider refused: each repeat is a call to it', async () => {
    const fault = rig.simulator.faults.add({ kind: 'status', status: 403, match: { path: /push_subscriptions/ } });
    const reads = await openSubscriptions();
    await page.getByRole('button', { name: 'Try again' }).waitFor();
    expect(await findBarriers(page)).toEqual([]);
    await page.clock.runFor(LONG_MS);
    fault.remove();
    await press('Try again');
    await untilListed();
    expect(reads).toEqual(['GET', 'GET']);
    expect(await page.getByRole('button', { name: 'Try again' }).count()).toBe(0);
  });

  it.each<[string, (route: Route) => Promise<void>]>([
    ['cannot be reached', (route) => route.abort()],
    ['is unavailable', (route) => route.fulfill({ status: 503, contentType: 'application/problem+json', body: '{}' })],
  ])(
    'is repeated automatically where the service %s, but not while the page is hidden or paused',
    async (_case, fail) => {
      await page.addInitScript(`Object.defineProperty(document, 'hidden', { configurable: true, value: true })`);
      await page.route(LIST, fail);
      const reads = await openSubscriptions();
      await page.getByRole('alert').first().waitFor();
      await page.clock.runFor(LONG_MS);
      await press('Pause');
      await page.evaluate(`Object.defineProperty(document, 'hidden', { configurable: true, value: false })`);
      await page.clock.runFor(LONG_MS);
      await page.unroute(LIST);
      await press('Follow');
      await page.clock.runFor(5000);
      await untilListed();
      expect(reads).toEqual(['GET', 'GET']);
    },
  );
});

const AWAY = {
  status: 503,
  contentType: 'application/problem+json',
  body: '{"detail":"The database cannot be reached."}',
};

// The page corrects its clock by the answers' time, and the service's time does not jump with the page's.
const OTHERS = /\/api\/admin\/(?!overview$|events$)/;
const withoutDate = async (route: Route) => {
  const response = await route.fetch();
  const { date: _, ...headers } = response.headers();
  await route.fulfill({ response, headers });
};

describe('figures that could not be re-read', () => {
  it('are not shown as healthy: the overview gives their age and says that the status is unknown', async () => {
    await page.clock.install();
    await page.route(OTHERS, withoutDate);
    await page.goto(`${rig.service.url}/admin`);
    await page.getByText(/^All is well/).waitFor();
    await page.route(/\/api\/admin\/overview$/, (route) => route.fulfill(AWAY));
    await page.clock.runFor(LONG_MS);
    await page.getByText('The service’s status is unknown: its figures cannot be read.').waitFor();
    await page.getByText('What is shown below was read 1 min ago.').waitFor();
    expect(await page.getByText(/^All is well/).count()).toBe(0);
    expect(await findBarriers(page)).toEqual([]);
    await page.unroute(/\/api\/admin\/overview$/);
    await page.clock.runFor(10_000);
    await page.getByText(/^All is well/).waitFor();
    expect(await page.getByText('What is shown below was read').count()).toBe(0);
    await page.unrouteAll({ behavior: 'ignoreErrors' });
  });

  it('are not shown as loading: jobs that could not be counted', async () => {
    await page.route(/\/activity-jobs\/count/, (route) => route.fulfill(AWAY));
    await page.goto(`${rig.service.url}/admin/jobs`);
    await page.getByText('The matching jobs could not be counted.').waitFor();
  });
});

describe('a session that the service ended', () => {
  it('is announced, and the view returns after the sign-in', async () => {
    await page.getByRole('link', { name: 'Athletes' }).click();
    await page.getByText('Live', { exact: true }).waitFor();
    expect(await page.getByText('Your session has ended').count()).toBe(0);
    await page.context().clearCookies();
    await rig.connectAthlete(); // the page is notified, and re-reads the list
    await page.getByText('Your session has ended').waitFor();
    expect(await findBarriers(page)).toEqual([]);
    await page.getByLabel('Admin token').fill(ADMIN_TOKEN);
    await press('Sign in');
    await page.getByRole('heading', { level: 1, name: 'Athletes' }).waitFor();
    await press('Sign out');
    await page.getByLabel('Admin token').waitFor();
    expect(await page.getByText('Your session has ended').count()).toBe(0);
  });
});

describe('a sign-out that failed', () => {
  it('keeps the view and says so, since the cookie is still valid', async () => {
    await page.route(/\/api\/admin\/session$/, (route) => route.abort());
    await press('Sign out');
    await page
      .getByRole('alert')
      .getByText('You are still signed in. The service cannot be reached. Try again.')
      .waitFor();
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
    await page.unroute(/\/api\/admin\/session$/);
    await press('Sign out');
    await page.getByLabel('Admin token').waitFor();
  });
});
