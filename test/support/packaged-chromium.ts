import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const CACHE = fileURLToPath(new URL('../../node_modules/.cache/', import.meta.url));
const UNPACK = fileURLToPath(new URL('./unpack-chromium.ts', import.meta.url));

interface OurPackage {
  devDependencies: Record<'@sparticuz/chromium', string>;
}

/** A browser that can be started, and what its environment must have. */
export interface PackagedBrowser {
  executablePath: string;
  env: Record<string, string>;
}

/** Whether the package has a browser for this machine. */
export const hasPackagedChromium = process.platform === 'linux' && process.arch === 'x64';

/**
 * The Chromium of the package `@sparticuz/chromium`, with the shared libraries and the fonts that a machine with
 * only Node.js lacks. The first caller unpacks it (two seconds, 200 MB) into node_modules; several may come at once.
 */
export async function findPackagedChromium(): Promise<PackagedBrowser> {
  const { devDependencies } = createRequire(import.meta.url)('../../package.json') as OurPackage;
  const folder = join(CACHE, `chromium-${devDependencies['@sparticuz/chromium']}`);
  if (!existsSync(folder)) await unpackTo(folder);
  return {
    executablePath: join(folder, 'chromium'),
    env: { LD_LIBRARY_PATH: join(folder, 'al2023', 'lib'), FONTCONFIG_FILE: join(folder, 'fonts.conf') },
  };
}

/** The folder gets its name when it is complete. */
async function unpackTo(folder: string): Promise<void> {
  await mkdir(CACHE, { recursive: true });
  const draft = await mkdtemp(join(CACHE, 'chromium-draft-'));
  try {
    // The package is made for a bare machine in the cloud, and asks its environment whether it is on one: then it
    // unpacks the shared libraries too.
    const env = { ...process.env, NODE_OPTIONS: '', TMPDIR: draft, AWS_LAMBDA_JS_RUNTIME: 'nodejs24.x' };
    await promisify(execFile)(process.execPath, [UNPACK], { env });
    await writeFile(join(draft, 'fonts.conf'), fontsConfiguration(folder));
    await rename(draft, folder);
  } catch (error) {
    if (!existsSync(folder)) throw error; // otherwise another process has unpacked it in the meantime
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
}

function fontsConfiguration(folder: string): string {
  return `<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>${folder}/fonts</dir>
  <cachedir>${folder}/fonts-cache</cachedir>
</fontconfig>
`;
}
