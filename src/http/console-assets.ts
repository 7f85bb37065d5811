import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import { build, stop } from 'esbuild';

/** A file of the console as it is sent: once for each encoding that browsers take. */
export interface ConsoleAsset {
  contentType: string;
  etag: string;
  encodings: { br: Buffer; gzip: Buffer; identity: Buffer };
}

/** The console's files by their paths below /admin/assets/; '' is the page itself. */
export type ConsoleAssets = ReadonlyMap<string, ConsoleAsset>;

const FOLDER = fileURLToPath(new URL('../console/', import.meta.url));
const PAGE = { name: '', file: 'index.html', contentType: 'text/html; charset=utf-8' };
const ICON = { name: 'icon.svg', file: 'icon.svg', contentType: 'image/svg+xml' };
const SCRIPT = { name: 'console.js', file: 'main.tsx', contentType: 'text/javascript; charset=utf-8' };
const STYLE = { name: 'console.css', file: 'console.css', contentType: 'text/css; charset=utf-8' };

let built: Promise<ConsoleAssets> | undefined;

/**
 * The console's files, bundled from src/console at the first call in the process: a fresh clone serves it
 * without a build. A bundling that failed is tried again at the next call.
 */
export function readConsoleAssets(): Promise<ConsoleAssets> {
  built ??= makeAssets().catch((error: unknown) => {
    built = undefined;
    throw error;
  });
  return built;
}

async function makeAssets(): Promise<ConsoleAssets> {
  try {
    const assets = await Promise.all([
      ...[PAGE, ICON].map(async (asset) => compress(asset, await readFile(FOLDER + asset.file))),
      ...[SCRIPT, STYLE].map(async (asset) => compress(asset, await bundle(asset.file))),
    ]);
    return new Map(assets);
  } finally {
    await stop();
  }
}

async function bundle(file: string): Promise<Buffer> {
  const { outputFiles } = await build({
    absWorkingDir: FOLDER,
    entryPoints: [file],
    bundle: true,
    minify: true,
    write: false,
    format: 'esm',
    target: 'es2022',
    jsx: 'automatic',
    jsxImportSource: 'preact',
    logLevel: 'silent',
  });
  return Buffer.from(outputFiles[0]?.contents ?? []);
}

async function compress(
  { name, contentType }: { name: string; contentType: string },
  identity: Buffer,
): Promise<[string, ConsoleAsset]> {
  const [br, gz] = await Promise.all([
    promisify(brotliCompress)(identity, { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } }),
    promisify(gzip)(identity, { level: 9 }),
  ]);
  const etag = `"${createHash('sha256').update(identity).digest('base64url').slice(0, 22)}"`;
  return [name, { contentType, etag, encodings: { br, gzip: gz, identity } }];
}
