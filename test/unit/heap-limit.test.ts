import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, it } from '@jest/globals';
import { findHeapLimit } from '../../src/infra/heap-limit.ts';
import { findResource } from '../support/manifests.ts';

const MIB = 1024 * 1024;

it('matches the old-space size of the Deployments', () => {
  const { NODE_OPTIONS } = findResource('ConfigMap', 'activity-sync').data;
  expect(findHeapLimit(NODE_OPTIONS.split(' '))).toBe(384 * MIB);
  expect(findHeapLimit(['--max_old_space_size=100', '--enable-source-maps', '--max-old-space-size=200'])).toBe(
    200 * MIB,
  );
  expect(findHeapLimit([])).toBeGreaterThan(100 * MIB);
});

it('is so near the end of a process that an alert at four fifths of it comes before the end', () => {
  const metrics = fileURLToPath(new URL('../../src/infra/metrics.ts', import.meta.url));
  // Writes to the file itself: what is gathered for a pipe is lost with the process.
  const leak = `
    import { writeSync } from 'node:fs';
    const { createMetrics } = await import(${JSON.stringify(metrics)});
    const { values: [{ value: limit }] } = await createMetrics().heapLimit.get();
    const kept = [];
    for (;;) {
      for (let i = 0; i < 2000; i += 1) kept.push({ i, text: 'kept ' + i });
      writeSync(1, process.memoryUsage().heapUsed / limit + '\\n');
      await new Promise(setImmediate);
    }`;
  const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '--eval', leak], {
    env: { PATH: process.env.PATH, NODE_OPTIONS: '--max-old-space-size=96' },
    encoding: 'utf8',
    maxBuffer: 64 * MIB,
  });
  expect(stderr).toContain('heap out of memory');
  const shares = stdout.trim().split('\n').map(Number);
  expect(Math.max(...shares)).toBeGreaterThan(0.8);
}, 60_000);
