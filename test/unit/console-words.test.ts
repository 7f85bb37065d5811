import { readFile } from 'node:fs/promises';
import { describe, expect, it } from '@jest/globals';
import type { Overview } from '../../src/console/api/bodies.ts';
import { countOf, formatAge, formatCountdown, formatSpan } from '../../src/console/format.ts';
import { assessHealth, type Judgement, UNKNOWN_HEALTH } from '../../src/console/health.ts';

const NOW = Date.parse('2025-05-06T12:05:00Z');
const LATER = '2025-05-06T12:15:02.000Z';

/** An idle service, except for what a test changes. */
function overviewWith(changes: Partial<Overview> = {}, budget: Partial<Overview['budget']> = {}): Overview {
  const nothing = { count: 0, p50S: null, p95S: null };
  const sums = {
    finished: {},
    drift: {},
    wait: { webhook: nothing, manual: nothing, polling: nothing },
    stored: nothing,
  };
  return {
    stats: { pending: 0, working: 0, done: 5, failed: 0, total: 5 },
    oldestDueS: { webhook: 0, manual: 0, polling: 0 },
    budget: {
      window: { start: '2025-05-06T12:00:00.000Z', end: '2025-05-06T12:15:00.000Z' },
      configuredCapacity: 600,
      capacity: 600,
      used: 0,
      left: 600,
      backgroundUsed: 0,
      reducedCapacity: null,
      blockedUntil: null,
      blockedBy: null,
      daily: { used: 0, limit: null },
      opensAt: { webhook: null, manual: null, polling: null },
      waiting: { turn: 0, cooldown: 0, budget: 0, backoff: 0 },
      ...budget,
    },
    athletes: { healthy: 3, reconnect: 0, scope: 0 },
    lastWebhookAt: null,
    polling: { startedAt: null, finishedAt: null },
    fetches: { succeeded: 9, failed: 0, failingSince: null },
    subscriptions: 1,
    pauses: [],
    doctor: { at: '2025-05-06T12:04:00.000Z', faults: [] },
    lastHour: sums,
    lastDay: sums,
    ...changes,
  };
}

const waiting = { pending: 7, working: 0, done: 5, failed: 0, total: 12 };

const first = (overview: Overview): Judgement => assessHealth(overview, NOW).judgements[0] as Judgement;
const opensAt = { webhook: LATER, manual: LATER, polling: LATER };
const behind = overviewWith(
  { stats: waiting, oldestDueS: { webhook: 300, manual: 0, polling: 0 } },
  { waiting: { turn: 7, cooldown: 0, budget: 0, backoff: 0 } },
);
const failing = (succeeded: number, failed: number, failingSince = '2025-05-06T12:04:00.000Z') =>
  overviewWith({ fetches: { succeeded, failed, failingSince } });
const faults = [{ check: 'handshake', detail: 'The callback does not answer.' }];

describe('the health banner', () => {
  it('says that all is well when nothing waits, and while jobs run', () => {
    expect(assessHealth(overviewWith(), NOW)).toEqual({
      level: 'good',
      judgements: [{ level: 'good', sentence: 'All is well; nothing waits.', to: '/jobs' }],
      notes: [],
    });
    const busy = overviewWith(
      { stats: { ...waiting, working: 2 } },
      { waiting: { turn: 7, cooldown: 0, budget: 0, backoff: 0 } },
    );
    expect(first(busy)).toMatchObject({ level: 'good', sentence: 'All is well; 7 jobs waiting, 2 running.' });
  });

  it('shows a spent budget, and a pause that the provider requested, as waiting', () => {
    expect(first(overviewWith({ stats: waiting }, { opensAt }))).toMatchObject({
      level: 'waiting',
      sentence: expect.stringMatching(/^Waiting for the budget until \d\d:15 [A-Z0-9+:-]+; 7 jobs will run then\.$/),
    });
    expect(first(overviewWith({}, { opensAt })).level).toBe('good');
    expect(first(overviewWith({}, { blockedUntil: LATER }))).toMatchObject({
      level: 'waiting',
      sentence: expect.stringMatching(/^Waiting until \d\d:15 [A-Z0-9+:-]+: the provider requested a pause\.$/),
    });
  });

  it('names the day’s limit as the cause of the wait', () => {
    expect(first(overviewWith({}, { blockedUntil: LATER, daily: { used: 30_000, limit: 30_000 } }))).toMatchObject({
      level: 'waiting',
      sentence: expect.stringMatching(
        /^Waiting until \d\d:15 [A-Z0-9+:-]+: the provider’s limit for the day is reached\.$/,
      ),
    });
  });

  it('warns from the first failed fetch on, whatever succeeded in between', () => {
    expect(first(failing(500, 1))).toMatchObject({
      level: 'warning',
      sentence: expect.stringContaining('1 of 501 in the last five minutes (0%)'),
    });
    expect(first(failing(0, 1)).level).toBe('warning');
  });

  it('is bad when 90 % of the fetches fail although some succeed, and when a tenth fails for longer than five minutes', () => {
    expect(first(failing(10, 90))).toMatchObject({
      level: 'bad',
      sentence: expect.stringMatching(/90 of 100 .* \(90%\), failing since \d\d:04/),
      to: '/jobs',
      runbook: 'provider',
    });
    expect(first(failing(80, 20)).level).toBe('warning');
    expect(first(failing(80, 20, '2025-05-06T11:50:00.000Z')).level).toBe('bad');
  });

  it('is bad without a subscription, since no webhook can arrive', () => {
    expect(first(overviewWith({ subscriptions: 0 }))).toMatchObject({
      level: 'bad',
      to: '/subscriptions',
      runbook: 'webhook',
    });
  });

  it('is bad when the doctor found a fault, and not good before its first checks', () => {
    expect(first(overviewWith({ doctor: { at: LATER, faults } }))).toMatchObject({
      level: 'bad',
      sentence: 'The doctor found 1 fault that can keep webhooks away: handshake.',
      to: '/subscriptions',
    });
    expect(first(overviewWith({ doctor: null }))).toMatchObject({ level: 'waiting' });
  });

  it('warns without an athlete, and is bad when none can be fetched', () => {
    expect(first(overviewWith({ athletes: { healthy: 0, reconnect: 0, scope: 0 } }))).toMatchObject({
      level: 'warning',
      to: '/athletes',
    });
    expect(first(overviewWith({ athletes: { healthy: 0, reconnect: 2, scope: 0 } })).level).toBe('bad');
  });

  it('is bad when a webhook’s job is due and no worker claims it', () => {
    expect(first(behind)).toMatchObject({ level: 'bad', sentence: expect.stringContaining('5 min') });
  });

  it('names a pause with its operator, time and reason, and does not show its waiting jobs as late', () => {
    const pauses = [
      { reason: 'all' as const, pausedBy: 'Ada', pausedAt: '2025-05-06T12:01:00.000Z', note: 'provider incident' },
    ];
    const { level, judgements } = assessHealth({ ...behind, pauses }, NOW);
    expect(level).toBe('warning');
    expect(judgements.map(({ sentence }) => sentence)).toEqual([
      expect.stringMatching(/^Fetching is paused \(all of it\) since \d\d:01 .* by Ada: provider incident$/),
    ]);
  });

  it('lists every finding, worst first', () => {
    const all = overviewWith({
      fetches: { succeeded: 9, failed: 1, failingSince: LATER },
      subscriptions: 0,
      doctor: { at: LATER, faults },
      athletes: { healthy: 0, reconnect: 0, scope: 0 },
    });
    expect(assessHealth(all, NOW).judgements.map(({ level }) => level)).toEqual(['bad', 'bad', 'warning', 'warning']);
  });

  it('has each of its sentences explained in the console’s manual', async () => {
    const manual = await readFile(new URL('../../docs/console.md', import.meta.url), 'utf8');
    const beginnings = [...manual.matchAll(/^\| ([A-Z][^|…]+) …[^|]*\|/gm)].map(([, words = '']) => words);
    const sentences = [
      first(overviewWith()),
      first(overviewWith({ stats: waiting }, { opensAt })),
      first(overviewWith({}, { blockedUntil: LATER })),
      first(failing(1, 9)),
      first(overviewWith({ subscriptions: 0 })),
      first(overviewWith({ doctor: { at: LATER, faults } })),
      first(overviewWith({ doctor: null })),
      first(overviewWith({ athletes: { healthy: 0, reconnect: 0, scope: 0 } })),
      first(overviewWith({ athletes: { healthy: 0, reconnect: 1, scope: 0 } })),
      first(behind),
      first(overviewWith({ pauses: [{ reason: 'all', pausedBy: 'Ada', pausedAt: LATER, note: '' }] })),
      UNKNOWN_HEALTH,
    ].map(({ sentence }) => sentence);
    const explained = sentences.map((sentence) => beginnings.filter((words) => sentence.startsWith(words)).length);
    expect(explained).toEqual(sentences.map(() => 1));
  });

  it('names athletes who need attention and jobs that failed', () => {
    const overview = overviewWith({ athletes: { healthy: 3, reconnect: 1, scope: 2 } });
    Object.assign(overview.lastHour.finished, { stored: 9, notFound: 1, unauthorized: 1, exhausted: 2, retry: 7 });
    expect(assessHealth(overview, NOW).notes.map(({ text }) => text)).toEqual([
      '1 athlete must reconnect',
      '2 athletes with insufficient scope',
      '4 jobs failed in the last hour',
    ]);
  });
});

describe('spans and counts in words', () => {
  it.each([
    [0, '0 ms'],
    [63.4, '63 ms'],
    [1500, '1.5 s'],
    [6000, '6 s'],
    [59_900, '59 s'],
    [245_000, '4 min 5 s'],
    [7_800_000, '2 h 10 min'],
    [3 * 86_400_000, '3 days'],
  ])('%p ms is %p', (ms, words) => {
    expect(formatSpan(ms)).toBe(words);
  });

  it.each([
    ['2025-05-06T12:04:57Z', '3 s ago'],
    ['2025-05-06T12:05:00Z', 'now'],
    ['2025-05-06T12:15:00Z', 'in 10 min'],
    ['2025-05-01T12:05:00Z', '5 days ago'],
  ])('%p is %p', (at, words) => {
    expect(formatAge(at, NOW)).toBe(words);
  });

  it.each([
    [432_000, '07:12'],
    [3_723_000, '1:02:03'],
    [-5, '00:00'],
  ])('%p ms to go are %p', (ms, words) => {
    expect(formatCountdown(ms)).toBe(words);
  });

  it('counts have thousands separators and a noun in singular or plural', () => {
    expect([countOf(1, 'job'), countOf(0, 'job'), countOf(12_345, 'activity', 'activities')]).toEqual([
      '1 job',
      '0 jobs',
      '12,345 activities',
    ]);
  });
});
