import { existsSync } from 'node:fs';
import { type Browser, chromium } from 'playwright-core';

// Debian's, Google's, macOS's; BROWSER_PATH names any other.
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
 * Starts a real Chromium: the one of BROWSER_PATH, one that is installed, or the one that a package
 * brings (Linux). The caller closes it.
 * @throws when there is none: a browser test is never skipped
 */
export async function startBrowser(): Promise<Browser> {
  const installed = process.env.BROWSER_PATH ?? INSTALLED.find((path) => existsSync(path));
  const { executablePath, env } = installed ? { executablePath: installed, env: {} } : await unpackChromium();
  return chromium.launch({
    executablePath,
    args: ARGUMENTS,
    env: { ...process.env, ...env },
    // Jest ends the process by itself; its own handlers come first.
    handleSIGINT: false,
    handleSIGTERM: false,
    handleSIGHUP: false,
  });
}

// The package is made for a bare machine in the cloud, and asks its environment whether it is on one: then
// it unpacks the shared libraries too, which a machine with only Node.js lacks.
async function unpackChromium(): Promise<{ executablePath: string; env: Record<string, string> }> {
  if (process.platform !== 'linux')
    throw new Error('No Chromium or Chrome was found. Install one, or name it in BROWSER_PATH.');
  const { AWS_LAMBDA_JS_RUNTIME, LD_LIBRARY_PATH, FONTCONFIG_PATH } = process.env;
  process.env.AWS_LAMBDA_JS_RUNTIME = 'nodejs24.x';
  try {
    const { default: packaged } = await import('@sparticuz/chromium');
    const executablePath = await packaged.executablePath();
    return {
      executablePath,
      env: {
        LD_LIBRARY_PATH: process.env.LD_LIBRARY_PATH ?? '',
        FONTCONFIG_PATH: process.env.FONTCONFIG_PATH ?? '',
      },
    };
  } finally {
    restore({ AWS_LAMBDA_JS_RUNTIME, LD_LIBRARY_PATH, FONTCONFIG_PATH });
  }
}

function restore(variables: Record<string, string | undefined>): void {
  for (const [name, value] of Object.entries(variables)) {
    if (value === undefined) delete process.env[name];
    else process.env[name] = value;
  }
}
