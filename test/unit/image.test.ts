import { globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from '@jest/globals';

const root = join(import.meta.dirname, '../..');
const read = (file: string) => readFileSync(join(root, file), 'utf8');
const dockerfile = read('Dockerfile');
const { dependencies, scripts } = JSON.parse(read('package.json')) as Record<
  'dependencies' | 'scripts',
  Record<string, string>
>;

/** What a process of the image runs: the service and its command line. */
const ENTRY_POINTS = ['src/main.ts', 'src/cli/main.ts'];

describe('the image', () => {
  const files = listImageSources();
  const loaded = followImports(ENTRY_POINTS, files);

  it('has every file that the service and its commands import', () => {
    expect(loaded.missing).toEqual([]);
  });

  it('has no source that neither of them imports, such as the simulator or the demo', () => {
    expect(files.filter((file) => !loaded.files.has(file))).toEqual([]);
  });

  it('has the packages that they import and no others', () => {
    const [, removed = ''] = dockerfile.match(/npm uninstall (?:--\S+\s+|\\\s+)*([^\\\n]*)/) ?? [];
    const kept = Object.keys(dependencies).filter((name) => !removed.trim().split(' ').includes(name));
    expect(kept.sort()).toEqual([...loaded.packages].sort());
  });

  it('has the console built, and a bill of materials of the packages it kept', () => {
    expect(dockerfile).toContain('RUN npm run build:console && rm -r src/console');
    expect(dockerfile).toMatch(/^COPY --from=sources \/app\/dist \.\/dist$/m);
    expect(dockerfile).toMatch(/npm run -s sbom > sbom\.cdx\.json$/m);
    expect(scripts.sbom).toBe('npm sbom --sbom-format cyclonedx --omit dev');
  });

  it('runs as an ordinary user, with the start command and a health check of its own', () => {
    expect(dockerfile).toMatch(/^USER 1000:1000$/m);
    expect(dockerfile).toMatch(/^ENTRYPOINT \["node", "--max-semi-space-size=8"\]$/m);
    expect(dockerfile).toMatch(/^CMD \["src\/main.ts"\]$/m);
    expect(dockerfile).toMatch(/^HEALTHCHECK /m);
  });

  it('installs from the lockfile, on the Node version that the tests use', () => {
    expect(dockerfile).toContain('npm ci --omit=dev --ignore-scripts');
    expect(dockerfile).toContain(`ARG NODE_IMAGE=node:${dependencies.node}-`);
  });
});

/** The files below src that reach the image: all but what .dockerignore leaves out and a build step deletes. */
function listImageSources(): string[] {
  const ignored = read('.dockerignore').match(/^src\/.+$/gm) ?? [];
  const deleted = [...dockerfile.matchAll(/rm -r (src\/\S+)/g)].map(([, path = '']) => path);
  const isLeftOut = (file: string) =>
    [...ignored, ...deleted].some((path) => file === path || file.startsWith(`${path}/`));
  return globSync('src/**/*.*', { cwd: root }).filter((file) => !isLeftOut(file));
}

/** Follows static imports from file to file. The one dynamic import, of the console's bundler, needs its sources. */
function followImports(entryPoints: string[], files: readonly string[]) {
  const found = { files: new Set<string>(), packages: new Set<string>(), missing: [] as string[] };
  const visit = (file: string) => {
    if (found.files.has(file)) return;
    found.files.add(file);
    const source = read(file);
    for (const [, type, from = ''] of source.matchAll(/^(?:import|export) (type )?(?:[^;]*? from )?'([^']+)';/gm)) {
      if (from.startsWith('.')) {
        const target = join(dirname(file), from);
        if (files.includes(target)) visit(target);
        else if (!type) found.missing.push(`${file} imports ${from}`);
      } else if (!type && !from.startsWith('node:')) {
        found.packages.add(/^(@[^/]+\/)?[^/]+/.exec(from)?.[0] ?? from);
      }
    }
  };
  for (const entryPoint of entryPoints) visit(entryPoint);
  return found;
}
