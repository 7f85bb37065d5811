import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { ADMIN_TOKEN, type Rig, startRig } from './service.ts';
import { freePort } from './service-process.ts';

/** A signed-in console in a browser, which records whatever it should not do. */
export interface ConsolePage {
  page: Page;
  /** Errors of scripts, refused requests, and requests that left the service's host. */
  faults: string[];
  close(): Promise<void>;
}

const WIDE = { width: 1280, height: 900 };
export const NARROW = { width: 390, height: 844 };

/** Starts a service that the provider reaches at its public address, as the subscription's views need it. */
export async function startReachableRig(options: Parameters<typeof startRig>[0] = {}): Promise<Rig> {
  const port = String(await freePort());
  return startRig({
    ...options,
    env: { PORT: port, NEXT_PUBLIC_BASE_URL: `http://127.0.0.1:${port}`, ...options.env },
  });
}

/** Opens the console at an address below /admin and signs in. */
export async function openConsole(
  browser: Browser,
  url: string,
  options: { at?: string; token?: string; context?: BrowserContextOptions } = {},
): Promise<ConsolePage> {
  const context = await browser.newContext({ viewport: WIDE, colorScheme: 'light', ...options.context });
  const page = await context.newPage();
  page.setDefaultTimeout(10_000);
  const faults: string[] = [];
  page.on('pageerror', (error) => faults.push(error.message));
  page.on('console', (message) => {
    if (message.type() === 'error' && /Content Security Policy/.test(message.text())) faults.push(message.text());
  });
  page.on('request', (request) => {
    if (new URL(request.url()).host !== new URL(url).host) faults.push(`left the host: ${request.url()}`);
  });
  page.on('response', (response) => {
    // The console checks the session before the sign-in.
    const isFirstQuestion = response.status() === 401 && response.url().endsWith('/api/admin/session');
    if (response.status() >= 400 && response.status() !== 404 && !isFirstQuestion)
      faults.push(`${response.status()} ${response.request().method()} ${response.url()}`);
  });
  await page.goto(`${url}/admin${options.at ?? ''}`);
  await page.getByLabel('Admin token').fill(options.token ?? ADMIN_TOKEN);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.locator('#view').waitFor();
  return { page, faults, close: () => context.close() };
}

interface AxeResult {
  violations: { id: string; help: string; nodes: { html: string; failureSummary?: string }[] }[];
}

/** What axe finds on the current page, in words. */
export async function findBarriers(page: Page): Promise<string[]> {
  const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
  // Given to the browser's debugger, which the page's policy does not bind.
  await page.evaluate(axe);
  const { violations } = (await page.evaluate("axe.run(document, { resultTypes: ['violations'] })")) as AxeResult;
  return violations.flatMap(({ id, help, nodes }) =>
    nodes.map(({ html, failureSummary }) => `${id}: ${help}: ${html} ${failureSummary}`),
  );
}
