import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { build, stop } from 'esbuild';

const SOURCES = import.meta.dirname;
const RUNBOOKS = join(SOURCES, '../../docs/runbooks');
const RUNBOOK_NAMES = ['delivery', 'process', 'provider', 'queue', 'webhook'] as const; // those that the console links to
const BUILT = join(SOURCES, '../../dist/console');

/**
 * Bundles the console.
 * @returns its files by name, uncompressed
 * @throws esbuild's error, which names the file and line it could not bundle
 */
export async function bundleConsole(): Promise<Map<string, Buffer>> {
  try {
    return new Map([
      ['index.html', await readFile(join(SOURCES, 'index.html'))],
      ['icon.svg', await readFile(join(SOURCES, 'icon.svg'))],
      ['console.js', await bundle('main.tsx')],
      ['console.css', await bundle('console.css')],
      ...(await readRunbooks()),
    ]);
  } finally {
    await stop();
  }
}

async function readRunbooks(): Promise<[string, Buffer][]> {
  const read = async (name: string): Promise<[string, Buffer]> => [
    `runbook-${name}.md`,
    await readFile(join(RUNBOOKS, `${name}.md`)),
  ];
  return Promise.all(RUNBOOK_NAMES.map(read));
}

async function bundle(file: string): Promise<Buffer> {
  const { outputFiles } = await build({
    absWorkingDir: SOURCES,
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

/** What `npm run build:console` does: writes the bundle to dist/console. */
export async function buildConsole(): Promise<void> {
  const files = await bundleConsole();
  await mkdir(BUILT, { recursive: true });
  for (const [name, content] of files) await writeFile(join(BUILT, name), content);
}

// Not awaited: Jest loads this module with require(), which refuses a top-level await.
if (import.meta.main) void buildConsole();
