import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { parse } from 'yaml';

const root = join(import.meta.dirname, '../..');
const read = (file: string) => readFileSync(join(root, file), 'utf8');
const { dependencies } = JSON.parse(read('package.json')) as { dependencies: { node: string } };

describe('the CI workflow', () => {
  const { jobs } = parse(read('.github/workflows/ci.yml')) as {
    jobs: Record<string, { container: string; steps: { uses?: string; run?: string }[] }>;
  };
  const steps = Object.values(jobs).flatMap((job) => job.steps);

  it('runs .ci/run and nothing else', () => {
    expect(steps.flatMap(({ run = [] }) => run)).toEqual(['.ci/run']);
  });

  it('pins each action by its major version', () => {
    const actions = steps.flatMap(({ uses = [] }) => uses);
    expect(actions.length).toBeGreaterThan(0);
    for (const action of actions) expect(action).toMatch(/^[\w-]+\/[\w-]+@v\d+$/);
  });

  it('runs in the major version of Node that npm ci brings', () => {
    const [major] = dependencies.node.split('.');
    expect(Object.values(jobs).map(({ container }) => container)).toEqual([`node:${major}-trixie`]);
  });
});

describe('.nvmrc', () => {
  it('names the Node that npm ci brings', () => {
    expect(read('.nvmrc').trim()).toBe(dependencies.node);
  });
});
