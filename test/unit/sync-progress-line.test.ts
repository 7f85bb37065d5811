import { execFileSync } from 'node:child_process';
import { describe, expect, it } from '@jest/globals';
import type { SyncProgress } from '../../src/flows/sync-progress.ts';

const MODULE = new URL('../../src/cli/sync-progress-line.ts', import.meta.url).href;
const NOW = Date.parse('2026-11-22T14:00:00Z');
const RUNNING: SyncProgress = {
  id: '7',
  athleteId: '7000001',
  state: 'running',
  force: false,
  after: null,
  before: '2026-11-22T13:00:00.000Z',
  athletes: { total: 1, listed: 1, failed: 0 },
  pages: 1,
  listed: 40,
  queued: 40,
  fetched: 10,
  fetchesFailed: 0,
  total: 40,
  waitingUntil: null,
  expectedEnd: '2026-11-22T18:30:00.000Z',
  error: null,
  createdAt: '2026-11-22T13:00:00.000Z',
  finishedAt: null,
};

/** The line as a command prints it on a machine in that zone, whose clock a process reads when it begins. */
function lineIn(zone: string, expectedEnd: string): string {
  const program = `import { toProgressLine } from '${MODULE}';
    process.stdout.write(toProgressLine(${JSON.stringify({ ...RUNNING, expectedEnd })}, ${NOW}));`;
  const args = ['--input-type=module', '--eval', program];
  return execFileSync(process.execPath, args, { env: { ...process.env, TZ: zone }, encoding: 'utf8' });
}

// Where it is the next day already, and where it is still the day before.
describe.each(['Asia/Tokyo', 'America/Los_Angeles'])('the end of a sync, read in %s', (zone) => {
  it.each([
    ['2026-11-22T18:30:00.000Z', 'ends about 18:30:00 UTC'],
    ['2026-11-23T02:00:00.000Z', 'ends about 2026-11-23 02:00:00 UTC'],
  ])('%s is told with its zone, and its date unless it is today', (expectedEnd, words) => {
    expect(lineIn(zone, expectedEnd).split(' · ').at(-1)).toBe(words);
  });
});
