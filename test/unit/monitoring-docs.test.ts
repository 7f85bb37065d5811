import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { findLogqlProblems } from '../../alerting/src/check-logql.ts';
import { findPromqlProblems } from '../../alerting/src/check-promql.ts';

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
