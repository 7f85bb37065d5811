import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { parse } from 'yaml';

const root = join(import.meta.dirname, '../..');
const read = (file: string) => readFileSync(join(root, file), 'utf8');
const { dependencies } = JSON.parse(read('package.json')) as { dependencies: { node: string } };

interface Workflow {
  jobs: Record<string, { container: string; steps: { uses?: string; run?: string }[] }>;
}
const readWorkflow = (name: string) => parse(read(`.github/workflows/${name}.yml`)) as Workflow;
const stepsOf = ({ jobs }: Workflow) => Object.values(jobs).flatMap((job) => job.steps);

describe('the CI workflow', () => {
  it('runs .ci/run and nothing else', () => {
    expect(stepsOf(readWorkflow('ci')).flatMap(({ run = [] }) => run)).toEqual(['.ci/run']);
  });
});

describe('the nightly workflow', () => {
  it('runs thousands of random histories and 20,000 random requests, with other seeds each night', () => {
    const runs = stepsOf(readWorkflow('nightly')).flatMap(({ run = [] }) => run);
    expect(runs).toEqual([
      'npm ci',
      expect.stringMatching(/^npm run history -- --seeds 5000 --from .*date/),
      expect.stringMatching(/^FUZZ_REQUESTS=20000 FUZZ_SEED=.*date.* npm test -- test\/integration\/fuzz$/),
    ]);
  });
});

describe.each(['ci', 'nightly'])('the workflow %s', (name) => {
  const workflow = readWorkflow(name);

  it('pins each action by its major version', () => {
    const actions = stepsOf(workflow).flatMap(({ uses = [] }) => uses);
    expect(actions.length).toBeGreaterThan(0);
    for (const action of actions) expect(action).toMatch(/^[\w-]+\/[\w-]+@v\d+$/);
  });

  it('runs in the major version of Node that npm ci brings', () => {
    const [major] = dependencies.node.split('.');
    expect(Object.values(workflow.jobs).map(({ container }) => container)).toEqual([`node:${major}-trixie`]);
  });
});

describe('.nvmrc', () => {
  it('names the Node that npm ci brings', () => {
    expect(read('.nvmrc').trim()).toBe(dependencies.node);
  });
});
