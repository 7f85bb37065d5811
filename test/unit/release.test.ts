import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { dateChangelog, deployVersion } from '../../tools/date-release.ts';
import { settings } from '../support/manifests.ts';

const root = join(import.meta.dirname, '../..');
const read = (file: string) => readFileSync(join(root, file), 'utf8');
const { version } = JSON.parse(read('package.json')) as { version: string };

describe('the version in package.json', () => {
  it('is the lockfile’s, the one that the manifests deploy, and the newest release of the changelog', () => {
    const lock = JSON.parse(read('package-lock.json')) as { version: string; packages: Record<string, object> };
    expect([lock.version, lock.packages['']]).toEqual([version, expect.objectContaining({ version })]);
    expect(settings.APP_VERSION).toBe(version);
    const releases = [...read('CHANGELOG.md').matchAll(/^## (?!Unreleased$)(.+)$/gm)].map(([, title]) => title);
    expect(releases[0]).toMatch(`${version} - `);
    for (const title of releases) expect(title).toMatch(/^\d+\.\d+\.\d+ - \d{4}-\d{2}-\d{2}$/);
  });
});

describe('npm version', () => {
  const before = '# Changelog\n\n## Unreleased\n\n### Added\n\n- A thing.\n\n## 0.1.0 - 2026-11-22\n';

  it('dates what is unreleased', () => {
    expect(dateChangelog(before, '0.2.0', '2026-11-23')).toBe(
      '# Changelog\n\n## 0.2.0 - 2026-11-23\n\n### Added\n\n- A thing.\n\n## 0.1.0 - 2026-11-22\n',
    );
    expect(dateChangelog('## Unreleased\n\n- The first.\n', '0.1.0', '2026-11-22')).toContain('## 0.1.0 - 2026-11-22');
  });

  it.each([
    '# Changelog\n\n## 0.1.0 - 2026-11-22\n\n- A thing.\n',
    '## Unreleased\n\n## 0.1.0 - 2026-11-22\n\n- A thing.\n',
  ])('refuses a release of which nothing is written down', (changelog) => {
    expect(() => dateChangelog(changelog, '0.2.0', '2026-11-23')).toThrow('nothing under "## Unreleased"');
  });

  it('lets the manifests deploy it', () => {
    expect(deployVersion('data:\n  APP_IMAGE: a\n  APP_VERSION: 0.1.0\n  OTHER: b\n', '0.2.0')).toBe(
      'data:\n  APP_IMAGE: a\n  APP_VERSION: 0.2.0\n  OTHER: b\n',
    );
  });
});
