import TestSequencer from '@jest/test-sequencer';

/** The files that take longest, longest first: mostly waiting for windows, alerts and pages. Others take under 12 s. */
const LONGEST = [
  'acceptance/console.test.ts',
  'integration/sync-survival.test.ts',
  'integration/monitoring-alert-path.test.ts',
  'integration/saturation.test.ts',
  'integration/week.test.ts',
  'acceptance/console-actions.test.ts',
  'acceptance/chaos.test.ts',
  'integration/cli-jobs.test.ts',
  'integration/waiting.test.ts',
  'integration/cli.test.ts',
  'integration/sync-budget.test.ts',
  'integration/monitoring-promtool.test.ts',
  'integration/polling.test.ts',
  'integration/replicas.test.ts',
  'integration/sync.test.ts',
];

/**
 * Begins with the longest test files. Jest does so by itself once it has seen them run; in a fresh clone it
 * goes by their size, and one worker may idle at the end while the other has a long one left.
 */
// biome-ignore lint/style/noDefaultExport: Jest takes the default export
export default class LongestFirst extends TestSequencer {
  /** @param {import('@jest/test-result').Test[]} tests */
  async sort(tests) {
    const rank = (test) => {
      const index = LONGEST.findIndex((name) => test.path.endsWith(`/${name}`));
      return index < 0 ? LONGEST.length : index;
    };
    return (await super.sort(tests)).sort((one, other) => rank(one) - rank(other));
  }
}
