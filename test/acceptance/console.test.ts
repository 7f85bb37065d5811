import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { Browser, Request } from 'playwright-core';
import { startBrowser } from '../support/browser.ts';
import { type ConsolePage, findBarriers, NARROW, openConsole, startReachableRig } from '../support/console.ts';
import { READ_TOKEN, type Rig } from '../support/service.ts';
import { untilThumbnail } from '../support/thumbnails.ts';
import { until } from '../support/until.ts';

let rig: Rig;
let browser: Browser;
let athleteId: string;
let activityId: string;
let failedJobId: string;

beforeAll(async () => {
  [rig, browser] = await Promise.all([startReachableRig(), startBrowser()]);
  await rig.admin('/api/admin/webhooks', { method: 'POST', body: '{}' });
  athleteId = await rig.connectAthlete('Ada Runner');
  activityId = await arrive();
  await untilThumbnail(rig, activityId);
  const failing = { activityId: '9007199254740993', athleteId };
  await rig.admin('/api/admin/activity-jobs', { method: 'POST', body: JSON.stringify(failing) });
  failedJobId = (await rig.untilJob(failing.activityId, ({ status }) => status === 'failed')).id;
  await rig.admin(`/api/admin/athletes/${athleteId}/sync`, { method: 'POST', body: '{}' });
}, 60_000);
afterAll(async () => {
  await browser?.close();
  await rig?.close();
});

/** An activity arrives by a webhook and is stored. */
async function arrive(fields: object = {}): Promise<string> {
  const { id } = await rig.simulator.createActivityAndNotify(athleteId, fields);
  await rig.untilJob(id, ({ outcome }) => outcome === 'stored');
  return id;
}

async function withConsole(
  options: Parameters<typeof openConsole>[2],
  use: (opened: ConsolePage) => Promise<void>,
): Promise<void> {
  const opened = await openConsole(browser, rig.service.url, options);
  try {
    await use(opened);
    expect(opened.faults).toEqual([]);
  } finally {
    await opened.close();
  }
}

/** Each view, with a word that it shows once everything is read. */
const views = (): [string, string | RegExp][] => [
  ['', 'All is well'],
  ['/jobs', failedJobId],
  [`/jobs/${failedJobId}`, 'Failed for good'],
  ['/athletes', 'Ada Runner'],
  [`/athletes/${athleteId}`, 'Granted'],
  ['/activities', /km|min/],
  [`/activities/${activityId}`, 'Elapsed time'],
  ['/deliveries', activityId],
  ['/subscriptions', 'nothing needs doing'],
  ['/processes', 'Last seen'],
  ['/audit', 'POST webhooks'],
];

describe('the console', () => {
  it.each([
    ['light and wide', { colorScheme: 'light' as const }],
    ['dark and narrow', { colorScheme: 'dark' as const, viewport: NARROW }],
  ])(
    'has no barrier that axe finds, and stays on its host, on each view: %s',
    async (_name, context) => {
      await withConsole({ context }, async ({ page }) => {
        for (const [path, word] of views()) {
          await page.goto(`${rig.service.url}/admin${path}`);
          await page.locator('#view').getByText(word).first().waitFor();
          expect([path, await findBarriers(page)]).toEqual([path, []]);
          const widest = await page.evaluate('document.documentElement.scrollWidth - innerWidth');
          expect([path, widest]).toEqual([path, 0]);
        }
      });
    },
    60_000,
  );

  it('loads less than 100 KB for the first view', async () => {
    const page = await (await browser.newContext()).newPage();
    let bytes = 0;
    page.on('response', async (response) => {
      bytes += Number(response.headers()['content-length'] ?? 0);
    });
    await page.goto(`${rig.service.url}/admin`, { waitUntil: 'networkidle' });
    expect(bytes).toBeGreaterThan(10_000);
    expect(bytes).toBeLessThan(100_000);
    expect(await findBarriers(page)).toEqual([]);
    await page.context().close();
  });

  it('requires a token, refuses a wrong one, and forgets the right one at sign-out', async () => {
    const context = await browser.newContext();
    const page = await context.newPage();
    await page.goto(`${rig.service.url}/admin/audit`);
    await page.getByLabel('Admin token').fill('guess');
    await page.keyboard.press('Enter');
    await page.getByRole('alert').getByText('neither the admin token nor the read token').waitFor();
    await page.getByLabel('Admin token').fill('admin-token-of-the-tests');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { level: 1, name: 'Audit' }).waitFor();
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByLabel('Admin token').waitFor();
    expect((await page.request.get(`${rig.service.url}/api/admin/audit`)).status()).toBe(401);
    await context.close();
  });

  it('shows everything and offers no changes to the read-only token', async () => {
    await withConsole({ token: READ_TOKEN, at: `/jobs/${failedJobId}` }, async ({ page }) => {
      await page.getByText('Signed in read-only').waitFor();
      await page.getByText('Failed for good').first().waitFor();
      expect(await page.locator('#view').getByRole('button').count()).toBe(0);
      await page.getByRole('link', { name: 'Subscriptions' }).click();
      await page.getByText('nothing needs doing').waitFor();
      expect(await page.locator('#view').getByRole('button').allTextContents()).toEqual(['Re-run checks']);
    });
  });

  it('opens its views from a menu where the screen is narrow', async () => {
    await withConsole({ context: { viewport: NARROW } }, async ({ page }) => {
      const views = page.getByRole('navigation', { name: 'Views' });
      expect(await views.isVisible()).toBe(false);
      await page.getByRole('button', { name: 'Menu' }).click();
      await views.waitFor();
      expect(await findBarriers(page)).toEqual([]);
      await views.getByRole('link', { name: 'Audit' }).click();
      await page.getByRole('heading', { level: 1, name: 'Audit' }).waitFor();
      await views.waitFor({ state: 'hidden' });
    });
  });

  it('works with the keyboard alone: skips to the view, opens it, and moves the focus to its heading', async () => {
    await withConsole({}, async ({ page }) => {
      await page.getByText('All is well').waitFor();
      await page.keyboard.press('Tab');
      expect(await page.evaluate('document.activeElement.textContent')).toBe('Skip to the view');
      const jobs = page.getByRole('navigation', { name: 'Views' }).getByRole('link', { name: 'Jobs' });
      while (!(await jobs.evaluate((link) => link === link.ownerDocument.activeElement)))
        await page.keyboard.press('Tab');
      await page.keyboard.press('Enter');
      await page.getByRole('heading', { level: 1, name: 'Jobs' }).waitFor();
      await page.locator('h1:focus', { hasText: 'Jobs' }).waitFor();
    });
  });
});

describe('live', () => {
  it('a webhook that is posted appears within a second, without a reload', async () => {
    await withConsole({ at: '/deliveries' }, async ({ page }) => {
      await page.getByText('Live', { exact: true }).waitFor();
      await page.getByRole('link', { name: /^job / }).first().waitFor();
      const { id } = rig.simulator.addActivity(athleteId);
      const event = {
        object_type: 'activity',
        object_id: id,
        aspect_type: 'create',
        owner_id: athleteId,
        subscription_id: Number(rig.simulator.subscriptions[0]?.id),
        event_time: Math.floor(Date.now() / 1000),
      };
      const shown = page.getByRole('cell', { name: id }).waitFor({ timeout: 1000 });
      expect((await rig.post(event)).status).toBe(200);
      await shown;
    });
  });

  it('shows an activity and its picture as soon as they are there, and the figures of the queue', async () => {
    await withConsole({ at: '/activities' }, async ({ page }) => {
      await page.getByText('Live', { exact: true }).waitFor();
      await arrive({ name: 'A new one <b>&' });
      await page.getByText('A new one <b>&').waitFor();
      await page.getByRole('listitem').filter({ hasText: 'A new one' }).locator('img').waitFor();
      await page.getByRole('link', { name: 'Overview' }).click();
      const done = page.getByRole('list', { name: 'Jobs by status' }).getByRole('link', { name: 'Done' });
      await arrive();
      const { stats } = (await (await rig.admin('/api/admin/activity-jobs?limit=1')).json()) as {
        stats: { done: number };
      };
      await done.getByText(String(stats.done), { exact: true }).waitFor();
    });
  });

  it('freezes while paused, aborts the current read, and catches up when it follows again', async () => {
    await withConsole({ at: '/activities' }, async ({ page }) => {
      await page.getByText('Live', { exact: true }).waitFor();
      await page.getByRole('listitem').first().waitFor();
      const list = /\/api\/admin\/activities(\?|$)/;
      const reads: Request[] = [];
      const failed = new Set<Request>();
      page.on('requestfailed', (request) => failed.add(request));
      await page.route(list, (route) => void reads.push(route.request())); // none is answered
      await arrive({ name: 'Before the pause' });
      await until(() => reads.length > 0, 'a read');
      await page.getByRole('button', { name: 'Pause' }).click();
      await page.getByText('Paused', { exact: true }).waitFor();
      await until(() => reads.every((read) => failed.has(read)), 'the end of each read');
      const before = reads.length;
      const id = await arrive({ name: 'While paused' });
      await untilThumbnail(rig, id);
      expect(reads).toHaveLength(before);
      await page.unroute(list);
      expect(await page.getByText('While paused').count()).toBe(0);
      await page.getByRole('button', { name: 'Follow' }).click();
      await page.getByText('While paused').waitFor();
    });
  });

  it('reconnects automatically after the service was unreachable', async () => {
    const replica = await rig.startReplica({ PORT: '0' });
    const opened = await openConsole(browser, replica.url, { at: '/jobs' });
    await opened.page.getByText('Live', { exact: true }).waitFor();
    const port = String(replica.port);
    await replica.stop();
    await opened.page.getByText('Connecting…').waitFor();
    await rig.startReplica({ PORT: port });
    await opened.page.getByText('Live', { exact: true }).waitFor();
    const id = await arrive();
    await opened.page.getByRole('cell', { name: id }).waitFor();
    await opened.close();
  }, 30_000);
});
