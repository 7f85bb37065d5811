import TestSequencer from '@jest/test-sequencer';

/**
 * The files that take longest, longest first; others take under 12 s. Those that mostly wait for windows, alerts and
 * processes are spread among those that keep the processor busy.
 */
const LONGEST = [
  'integration/monitoring-alert-path.test.ts', // waits
  'integration/week.test.ts',
  'integration/monitoring-promtool.test.ts',
  'integration/sync-survival.test.ts', // waits
  'acceptance/console.test.ts',
  'acceptance/chaos.test.ts',
  'integration/saturation.test.ts', // waits
  'acceptance/console-actions.test.ts',
  'integration/cli-jobs.test.ts',
  'integration/waiting.test.ts', // waits
  'integration/cli.test.ts',
  'integration/replicas.test.ts', // waits
  'integration/polling.test.ts',
  'integration/sync-budget.test.ts',
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
