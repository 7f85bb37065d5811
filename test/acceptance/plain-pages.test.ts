import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { Browser, Page } from 'playwright-core';
import { PLAIN_HOST, startBrowser } from '../support/browser.ts';
import { findBarriers } from '../support/console.ts';
import { ADMIN_TOKEN, type Rig, startRig } from '../support/service.ts';
import { untilThumbnail } from '../support/thumbnails.ts';
import { until } from '../support/until.ts';

let rig: Rig;
let browser: Browser;

beforeAll(async () => {
  [rig, browser] = await Promise.all([startRig({ proxied: true }), startBrowser()]);
}, 60_000);
afterAll(async () => {
  await browser?.close();
  await rig?.close();
});

it('the plain form signs in over http under the host’s own name, where a browser sends no Sec-Fetch-Site', async () => {
  const page = await browser.newPage();
  const posts: Record<string, string>[] = [];
  page.on('request', async (request) => {
    if (request.method() === 'POST') posts.push(await request.allHeaders());
  });
  await page.goto(`http://${PLAIN_HOST}:${rig.service.port}/`);
  await page.getByLabel('Admin token').fill('guess');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('alert').getByText('neither the admin token nor the read token').waitFor();
  await page.getByLabel('Admin token').fill(ADMIN_TOKEN);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('heading', { level: 1, name: 'Newest activities' }).waitFor();
  expect(posts).toHaveLength(2);
  for (const headers of posts) expect(headers['sec-fetch-site']).toBeUndefined();
});

it('a console without ADMIN_TOKEN says that it is closed and how to open it, in place of a form', async () => {
  const closed = await rig.startReplica({ ADMIN_TOKEN: '' });
  const page = await browser.newPage();
  await page.goto(`${closed.url}/admin`);
  await page.getByRole('alert').getByText('To open it, set ADMIN_TOKEN').waitFor();
  expect(await page.getByRole('button', { name: 'Sign in' }).count()).toBe(0);
  expect(await findBarriers(page)).toEqual([]);
  await page.close();
});

async function openActivities(viewport: { width: number; height: number }, path = '/'): Promise<Page> {
  const page = await browser.newPage({ viewport, extraHTTPHeaders: { authorization: `Bearer ${ADMIN_TOKEN}` } });
  await page.goto(`${rig.service.url}${path}`);
  return page;
}

describe('the page of activities', () => {
  const DRAWN_PX = 256;
  let athleteId: string;

  beforeAll(async () => {
    rig.simulator.subscribe(`${rig.service.url}/api/provider/webhook`);
    athleteId = await rig.connectAthlete('Ada Runner');
    const { id } = await rig.simulator.createActivityAndNotify(athleteId, { name: 'Morning loop' });
    await rig.untilJob(id, ({ outcome }) => outcome === 'stored');
    await untilThumbnail(rig, id);
  }, 30_000);

  it.each([
    ['a desktop', 1280],
    ['a tablet', 820],
    ['a phone', 390],
    ['a small phone', 320],
  ])(
    'shows each picture square, whole and no smaller than it was drawn, so that the map’s attribution is readable: %s',
    async (_screen, width) => {
      const page = await openActivities({ width, height: 800 });
      const picture = page.getByRole('img', { name: 'Route of Morning loop' });
      await picture.waitFor();
      const box = await picture.boundingBox();
      expect(box?.width).toBeCloseTo(box?.height ?? 0, 0);
      expect(box?.width).toBeGreaterThanOrEqual(DRAWN_PX);
      expect(box?.width).toBeLessThanOrEqual(width);
      expect(
        await picture.evaluate((image) => image.ownerDocument.defaultView?.getComputedStyle(image).objectFit),
      ).toBe('fill');
      await page.getByText('Ada Runner').waitFor();
      expect(await findBarriers(page)).toEqual([]);
      await page.close();
    },
  );

  it('leads to older activities', async () => {
    await rig.service.database.query(
      `INSERT INTO activity (activity_id, athlete_id, name, sport_type, start_date, detail)
       SELECT 7000000 + n, $1, 'Old ' || n, 'Walk', '2020-01-01Z'::timestamptz - n * interval '1 day', '{}' FROM generate_series(1, 70) n`,
      [athleteId],
    );
    const page = await openActivities({ width: 1280, height: 800 });
    await page.getByText('Old 59', { exact: true }).waitFor();
    expect(await page.getByText('Old 60', { exact: true }).count()).toBe(0);
    await page.getByRole('link', { name: 'Older' }).click();
    await page.getByText('Old 60', { exact: true }).waitFor();
    expect(await page.getByRole('link', { name: 'Older' }).count()).toBe(0);
    await page.getByRole('link', { name: 'Newest' }).click();
    await page.getByText('Morning loop').waitFor();
    await page.close();
  });
});

describe('an address that cannot be shown', () => {
  it('is a page for a browser, and a problem document for any other client', async () => {
    const page = await openActivities({ width: 1280, height: 800 }, '/nothing');
    await page.getByRole('heading', { level: 1, name: 'Not found' }).waitFor();
    expect(await findBarriers(page)).toEqual([]);
    await page.close();
    const response = await fetch(`${rig.service.url}/nothing`);
    expect(response.status).toBe(404);
    expect(response.headers.get('content-type')).toMatch('application/problem+json');
    await response.arrayBuffer();
  });

  it('is a page while the database is unreachable, and says that the service keeps trying', async () => {
    const context = await browser.newContext();
    const page = await context.newPage();
    await page.goto(`${rig.service.url}/sign-in`);
    await page.getByLabel('Admin token').fill(ADMIN_TOKEN);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByText('Morning loop').waitFor();
    rig.proxy.cut();
    const answer = await page.goto(`${rig.service.url}/`);
    expect(answer?.status()).toBe(503);
    await page.getByRole('heading', { level: 1, name: 'Temporarily unavailable' }).waitFor();
    await page.getByText('The service keeps trying.').waitFor();
    rig.proxy.restore();
    await context.close();
    await until(async () => (await fetch(`${rig.service.url}/readyz`)).status === 200, 'the database');
  });
});
