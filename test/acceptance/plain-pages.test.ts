import { afterAll, beforeAll, expect, it } from '@jest/globals';
import type { Browser } from 'playwright-core';
import { PLAIN_HOST, startBrowser } from '../support/browser.ts';
import { ADMIN_TOKEN, type Rig, startRig } from '../support/service.ts';

let rig: Rig;
let browser: Browser;

beforeAll(async () => {
  [rig, browser] = await Promise.all([startRig({ env: { SERVICE_ROLES: 'web' } }), startBrowser()]);
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
  await page.getByRole('alert').getByText('not the admin token').waitFor();
  await page.getByLabel('Admin token').fill(ADMIN_TOKEN);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('heading', { level: 1, name: 'Newest activities' }).waitFor();
  expect(posts).toHaveLength(2);
  for (const headers of posts) expect(headers['sec-fetch-site']).toBeUndefined();
});
