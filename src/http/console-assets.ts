import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';

/** A file of the console as it is sent: once for each encoding that browsers take. */
export interface ConsoleAsset {
  contentType: string;
  etag: string;
  encodings: { br: Buffer; gzip: Buffer; identity: Buffer };
}

/** The console's files by their paths below /admin/assets/; '' is the page itself. */
export type ConsoleAssets = ReadonlyMap<string, ConsoleAsset>;

const ROOT = join(import.meta.dirname, '../..');
const BUILT = join(ROOT, 'dist/console');
const SOURCES = ['src/console', 'src/domain', 'docs/runbooks', 'package-lock.json'].map((path) => join(ROOT, path));
const CONTENT_TYPES = {
  'index.html': 'text/html; charset=utf-8',
  'icon.svg': 'image/svg+xml',
  'console.js': 'text/javascript; charset=utf-8',
  'console.css': 'text/css; charset=utf-8',
  'runbook-delivery.md': 'text/plain; charset=utf-8',
  'runbook-process.md': 'text/plain; charset=utf-8',
  'runbook-provider.md': 'text/plain; charset=utf-8',
  'runbook-queue.md': 'text/plain; charset=utf-8',
  'runbook-webhook.md': 'text/plain; charset=utf-8',
};

/**
 * Loads the console when a process starts: the files that `npm run build:console` wrote, or, in a clone where they
 * are missing or older than their sources, a bundle made in memory. The image has the built files alone.
 * @throws when the console can be neither read nor bundled
 */
export async function loadConsoleAssets(): Promise<ConsoleAssets> {
  const files = (await isBuilt()) ? await readBuilt() : await (await import('../console/bundle.ts')).bundleConsole();
  const assets = Object.entries(CONTENT_TYPES).map(async ([name, contentType]) => {
    const content = files.get(name);
    if (content === undefined) throw new Error(`The console has no ${name}. Run npm run build:console.`);
    return [name === 'index.html' ? '' : name, await compress(content, contentType)] as const;
  });
  return new Map(await Promise.all(assets));
}

async function isBuilt(): Promise<boolean> {
  if (!existsSync(SOURCES[0] as string)) return true;
  const script = join(BUILT, 'console.js');
  if (!existsSync(script)) return false;
  const times = await Promise.all(SOURCES.map(newestChangeMs));
  return Math.max(...times) < (await stat(script)).mtimeMs;
}

async function newestChangeMs(path: string): Promise<number> {
  const found = await stat(path);
  if (!found.isDirectory()) return found.mtimeMs;
  const files = await readdir(path, { recursive: true });
  const times = await Promise.all(files.map(async (file) => (await stat(join(path, file))).mtimeMs));
  return Math.max(found.mtimeMs, ...times);
}

async function readBuilt(): Promise<Map<string, Buffer>> {
  const names = Object.keys(CONTENT_TYPES);
  return new Map(await Promise.all(names.map(async (name) => [name, await readFile(join(BUILT, name))] as const)));
}

async function compress(identity: Buffer, contentType: string): Promise<ConsoleAsset> {
  const [br, gz] = await Promise.all([
    promisify(brotliCompress)(identity, { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } }),
    promisify(gzip)(identity, { level: 9 }),
  ]);
  const etag = `"${createHash('sha256').update(identity).digest('base64url').slice(0, 22)}"`;
  return { contentType, etag, encodings: { br, gzip: gz, identity } };
}
