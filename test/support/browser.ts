import { existsSync } from 'node:fs';
import { type Browser, chromium } from 'playwright-core';
import { findPackagedChromium, hasPackagedChromium, type PackagedBrowser } from './packaged-chromium.ts';

// Debian's, Google's, macOS's.
const INSTALLED = [
  '/usr/bin/chromium',
  '/usr/bin/google-chrome',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
  '/Applications/Chromium.app/Contents/MacOS/Chromium',
  'C:\\Program Files\\Google\\Chrome\\Application\\chrome.exe',
];
/** A name of this machine that a browser does not trust as it trusts localhost: over plain http it says less of itself. */
export const PLAIN_HOST = 'activity-sync.test';

const ARGUMENTS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  `--host-resolver-rules=MAP ${PLAIN_HOST} 127.0.0.1`,
];

/**
 * Starts a real Chromium: the one of BROWSER_PATH, the one that a package brings (the same on every machine), or
 * one that is installed. The caller closes it.
 * @throws when there is none: a browser test is never skipped
 */
export async function startBrowser(): Promise<Browser> {
  const { executablePath, env } = await findBrowser();
  return chromium.launch({
    executablePath,
    args: ARGUMENTS,
    env: { ...process.env, ...env },
    // Jest ends the process; its own handlers come first.
    handleSIGINT: false,
    handleSIGTERM: false,
    handleSIGHUP: false,
  });
}

async function findBrowser(): Promise<PackagedBrowser> {
  const named = process.env.BROWSER_PATH;
  if (named) return { executablePath: named, env: {} };
  if (hasPackagedChromium) return findPackagedChromium();
  const installed = INSTALLED.find((path) => existsSync(path));
  if (installed) return { executablePath: installed, env: {} };
  throw new Error('No Chromium or Chrome was found. Install one, or name it in BROWSER_PATH.');
}
