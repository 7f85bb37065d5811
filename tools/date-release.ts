import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * What `npm version` runs between raising the version and its commit: dates the section Unreleased of CHANGELOG.md,
 * lets the manifests deploy this version, and stages both.
 */

const ROOT = join(import.meta.dirname, '..');
const UNRELEASED = /^## Unreleased\n/m;

/** @throws when nothing is written down that this release would bring */
export function dateChangelog(changelog: string, version: string, day: string): string {
  const [, section = ''] = /^## Unreleased\n([\s\S]*?)(?=^## |$(?![\s\S]))/m.exec(changelog) ?? [];
  if (!/^- /m.test(section)) {
    throw new Error(
      'CHANGELOG.md has nothing under "## Unreleased". Write down what this release brings, then repeat.',
    );
  }
  return changelog.replace(UNRELEASED, `## ${version} - ${day}\n`);
}

/** @throws when the settings have no APP_VERSION */
export function deployVersion(settings: string, version: string): string {
  if (!/^ {2}APP_VERSION: .+$/m.test(settings)) throw new Error('k8s/flux/settings.yaml has no APP_VERSION.');
  return settings.replace(/^( {2}APP_VERSION: ).+$/m, `$1${version}`);
}

if (import.meta.main) {
  const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string };
  const day = new Date().toISOString().slice(0, 10);
  const rewrite = (file: string, change: (text: string) => string): [string, string] => [
    file,
    change(readFileSync(join(ROOT, file), 'utf8')),
  ];
  const changed = [
    rewrite('CHANGELOG.md', (text) => dateChangelog(text, version, day)),
    rewrite('k8s/flux/settings.yaml', (text) => deployVersion(text, version)),
  ];
  for (const [file, text] of changed) writeFileSync(join(ROOT, file), text);
  execFileSync('git', ['add', ...changed.map(([file]) => file)], { cwd: ROOT, stdio: 'inherit' });
}
