import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { findLogqlProblems } from '../../alerting/src/check-logql.ts';
import { findPromqlProblems } from '../../alerting/src/check-promql.ts';
import { findResource } from '../support/manifests.ts';

const docs = join(import.meta.dirname, '../../docs');
const pages = ['monitoring.md', ...readdirSync(join(docs, 'runbooks')).map((file) => join('runbooks', file))].map(
  (page) => ({
    page,
    text: readFileSync(join(docs, page), 'utf8'),
  }),
);
const blocks = (language: string) =>
  pages.flatMap(({ page, text }) =>
    [...text.matchAll(new RegExp(`^ *\`\`\`${language}\\n([\\s\\S]*?)^ *\`\`\``, 'gm'))].map(([, query]) => ({
      page,
      query: query?.trim() ?? '',
    })),
  );

describe('the queries that operators copy', () => {
  it.each(blocks('promql'))('$page: $query is PromQL', ({ query }) => {
    expect(findPromqlProblems(query)).toEqual([]);
  });

  it.each(blocks('logql'))('$page: $query is LogQL', ({ query }) => {
    expect(findLogqlProblems(query, 'log')).toEqual([]);
  });

  it.each(
    pages.flatMap(({ page, text }) =>
      [...text.matchAll(/`(\{namespace[^`]*)`/g)].map(([, query]) => ({ page, query: query ?? '' })),
    ),
  )('$page: $query is LogQL', ({ query }) => {
    expect(findLogqlProblems(query, 'log')).toEqual([]);
  });
});

describe.each(pages)('the links of $page', ({ page, text }) => {
  it('lead to pages and sections that exist', () => {
    for (const [, target] of text.matchAll(/\]\(([^)\s]+)\)/g)) {
      const [path = '', anchor] = (target ?? '').split('#');
      const file = path === '' ? join(docs, page) : join(docs, dirname(page), path);
      expect([target, existsSync(file)]).toEqual([target, true]);
      if (anchor === undefined) continue;
      const anchors = (readFileSync(file, 'utf8').match(/^#+ .+$/gm) ?? []).map(anchorOf);
      expect(anchors).toContain(anchor);
    }
  });
});

describe('the logs that operators are told to read', () => {
  const commands = pages.flatMap(({ text }) => text.match(/kubectl [^`\n]*\blogs [^`\n]*/g) ?? []);

  it('cover every pod: a Deployment or a DaemonSet gives the log of one', () => {
    const ofOne = commands.filter((command) => /logs (deploy|ds)\/(?!monitoring-grafana )/.test(command));
    expect(ofOne).toEqual([]);
    for (const command of commands.filter((command) => command.includes(' -l ')))
      expect([command, /--prefix --tail=(-1|\d+)/.test(command)]).toEqual([command, true]);
  });

  it('are found by labels that the pods have', () => {
    const components = commands.flatMap(
      (command) => /-l app\.kubernetes\.io\/component=(\w+)/.exec(command)?.[1] ?? [],
    );
    expect(new Set(components)).toEqual(new Set(['web', 'worker']));
    for (const component of components) {
      const { labels } = findResource('Deployment', `activity-sync-${component}`).spec.template.metadata;
      expect(labels['app.kubernetes.io/component']).toBe(component);
    }
  });
});

describe('the remedies of the runbooks', () => {
  const { data } = findResource('ConfigMap', 'activity-sync');
  const options: string[] = [
    ...Object.keys(data),
    ...data.NODE_OPTIONS.split(' ').map((one: string) => one.split('=')[0]),
  ];
  const remedies = pages.flatMap(({ page, text }) =>
    [...text.matchAll(/^\*\*Do\.\*\* [\s\S]*?(?=^## |(?![\s\S]))/gm)]
      .map(([remedy]) => ({ page, remedy }))
      .filter(({ remedy }) => options.some((name) => remedy.includes(`\`${name}\``))),
  );

  it.each(remedies)('$page: a changed variable takes effect only after a restart', ({ remedy }) => {
    expect(remedy).toMatch(/README\.md#changing-a-variable/);
  });

  it('mention variables at all', () => {
    expect(remedies.length).toBeGreaterThan(2);
  });
});

describe('what the manual says', () => {
  const manual = pages[0]?.text ?? '';

  it.each([
    ['DNS', '## DNS'],
    ['passwords', 'admin-password'],
    ['tuning and how to undo it', 'To undo it'],
    ['the test alert', 'npm run alert:test'],
    ['provisioning', 'npm run uptime:provision'],
    ['a full reconcile', '--with-source'],
    ['restoring', '### Restore'],
  ])('covers %s', (_, text) => {
    expect(manual).toContain(text);
  });
});

function anchorOf(heading: string): string {
  return heading
    .replace(/^#+ /, '')
    .toLowerCase()
    .replaceAll(/[^\w\- ]/g, '')
    .replaceAll(' ', '-');
}
