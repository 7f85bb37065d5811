import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { COMMAND_VARIABLES, VARIABLES } from '../../src/infra/config-variables.ts';

const root = join(import.meta.dirname, '../..');
const read = (file: string) => readFileSync(join(root, file), 'utf8');
const folders = ['.', 'docs', 'docs/adr', 'docs/runbooks'];
const pages = folders.flatMap((folder) =>
  readdirSync(join(root, folder))
    .filter((file) => file.endsWith('.md'))
    .map((file) => ({ page: join(folder, file), text: read(join(folder, file)) })),
);
const { scripts, dependencies, devDependencies } = JSON.parse(read('package.json')) as Record<
  'scripts' | 'dependencies' | 'devDependencies',
  Record<string, string>
>;

const anchorsOf = (text: string) =>
  (text.match(/^#+ .+$/gm) ?? []).map((heading) =>
    heading
      .replace(/^#+ /, '')
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  );

// A restore begins with writing it.
const WRITTEN_BY_OPERATORS = new Set(['k8s/database/restored.yaml']);

describe.each(pages)('$page', ({ page, text }) => {
  it('links to pages, pictures and sections that exist', () => {
    for (const [, target = ''] of text.matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^https?:/.test(target)) continue;
      const [path = '', anchor] = target.split('#');
      const file = path === '' ? page : join(dirname(page), path);
      expect([target, existsSync(join(root, file))]).toEqual([target, true]);
      if (anchor !== undefined) expect(anchorsOf(read(file))).toContain(anchor);
    }
  });

  it('names files that exist', () => {
    const named = [...text.matchAll(/`((?:src|test|bench|sql|k8s|alerting|dashboards|docs)\/[\w./-]*\w)\/?`/g)].map(
      ([, file = '']) => file,
    );
    expect(named.filter((file) => !existsSync(join(root, file)) && !WRITTEN_BY_OPERATORS.has(file))).toEqual([]);
    const run = [...text.matchAll(/\bnode ((?:src|bench|test)\/[\w./-]+\.ts)/g)].map(([, file = '']) => file);
    expect(run.filter((file) => !existsSync(join(root, file)))).toEqual([]);
  });

  it('names package scripts that exist', () => {
    const named = [...text.matchAll(/\bnpm run (?:-s )?([\w:-]+)/g)].map(([, name = '']) => name);
    expect(named.filter((name) => !(name in scripts))).toEqual([]);
  });
});

describe('the walk from webhook to picture', () => {
  const walk = /## From webhook to picture\n([\s\S]*?)\n## /.exec(read('ARCHITECTURE.md'))?.[1] ?? '';

  it('takes at most 18 files', () => {
    const steps = [...walk.matchAll(/^\|[^|]*\| `(src\/[\w./-]+)` \|/gm)];
    expect(steps.length).toBeGreaterThan(10);
    expect(steps.length).toBeLessThanOrEqual(18);
  });

  it('takes at most 12 SQL functions, each in the file that it names', () => {
    const rows = [...walk.matchAll(/^\| (`[a-z_`, ]+`) \| `(\S+\.sql)` \|/gm)];
    const functions = rows.flatMap(([, names = '', file = '']) => names.split(', ').map((name) => ({ name, file })));
    expect(functions.length).toBeGreaterThan(5);
    expect(functions.length).toBeLessThanOrEqual(12);
    for (const { name, file } of functions) {
      expect(read(`sql/functions/${file}`)).toContain(`FUNCTION ${name.replaceAll('`', '')}(`);
    }
  });
});

describe('the page about configuration', () => {
  it('gives the service’s default for each variable', () => {
    const section = /## Variables\n([\s\S]*?)\n## /.exec(read('docs/configuration.md'))?.[1] ?? '';
    const rows = [...section.matchAll(/^\| ([A-Z][A-Z_, /]*) \| (.*) \|$/gm)];
    expect(rows.length).toBeGreaterThan(20);
    for (const [, names = '', said = ''] of rows) {
      const values = said.split(' / ');
      // "A_B / _C" is A_B and A_C.
      const [first = '', ...others] = names.split(/ \/ |, /);
      const all = [first, ...others.map((name) => (name.startsWith('_') ? first.replace(/_[A-Z]+$/, name) : name))];
      all.forEach((name, index) => {
        const { schema } = VARIABLES[name as keyof typeof VARIABLES];
        const unset = schema.safeParse(undefined);
        const stated = (values[index] ?? said).replaceAll('`', '');
        if (!unset.success) expect([name, stated]).toEqual([name, 'required']);
        else if (unset.data === undefined)
          expect([name, stated]).toEqual([name, expect.stringMatching(/^(unset|required)/)]);
        else expect([name, stated.split(/[ ;]/)[0]]).toEqual([name, String(unset.data)]);
      });
    }
  });
});

describe('the page about development', () => {
  it('gives every package with its reason, and no other', () => {
    const section = /## Packages\n([\s\S]*)/.exec(read('docs/development.md'))?.[1] ?? '';
    const named = [...section.matchAll(/^\| (?!Package)([^|]+) \|/gm)].flatMap(([, cell = '']) =>
      cell.replace(' (development)', '').split(', '),
    );
    const isNamed = (name: string) =>
      named.some((one) => one === name || (one.endsWith('/*') && name.startsWith(one.slice(0, -1))));
    const all = Object.keys({ ...dependencies, ...devDependencies });
    expect(all.filter((name) => !isNamed(name))).toEqual([]);
    const isThere = (one: string) =>
      all.some((name) => name === one || (one.endsWith('/*') && name.startsWith(one.slice(0, -1))));
    expect(named.filter((one) => one !== '---' && !isThere(one))).toEqual([]);
  });
});

describe('variables that a page names', () => {
  const families = /\b(?:PROVIDER|FETCH|THUMBNAIL|POLLING|JOB|ADMIN|TOKEN|NEXT_PUBLIC|TRUSTED|SERVICE)_[A-Z_]*[A-Z]\b/g;
  it.each(pages)('$page names only variables that the service reads', ({ text }) => {
    const known = { ...VARIABLES, ...COMMAND_VARIABLES };
    expect((text.match(families) ?? []).filter((name) => !(name in known))).toEqual([]);
  });
});

describe('the page about the command line', () => {
  const page = read('docs/cli.md');
  const source = readdirSync(join(root, 'src/cli'))
    .map((file) => read(join('src/cli', file)))
    .join('\n');

  it('has every package script of the command line', () => {
    const commands = Object.entries(scripts).filter(([, command]) => command.startsWith('node src/cli/main.ts'));
    expect(commands.filter(([name]) => !page.includes(`\`npm run ${name}`)).map(([name]) => name)).toEqual([]);
  });

  it('has only options that the commands take', () => {
    const named = [...page.matchAll(/(?<![\w-])--([a-z][a-z-]+)/g)].map(([, name]) => name);
    expect(named.length).toBeGreaterThan(8);
    const isTaken = (name = '') => name === 'help' || new RegExp(`'--${name}[ ']`).test(source);
    expect(named.filter((name) => !isTaken(name))).toEqual([]);
  });

  it('names the last migration', () => {
    const names = readdirSync(join(root, 'sql/migrations')).sort();
    expect(page).toContain(`The schema is up to date: the last migration is ${names.at(-1)}.`);
  });
});

describe('the commands of the runbooks', () => {
  const sets = (text: string) => [...text.matchAll(/^(?:export )?([A-Z_]+)=/gm)].map(([, name]) => name);
  const known = new Set(sets(read('docs/runbooks/README.md')));

  it.each(pages.filter(({ page }) => page.startsWith('docs/runbooks')))(
    '$page: use only variables that are set',
    ({ text }) => {
      const used = [...text.matchAll(/\$\{?([A-Z][A-Z_]+)/g)].map(([, name]) => name);
      expect(used.filter((name) => !known.has(name))).toEqual([]);
    },
  );
});
