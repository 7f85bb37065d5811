import { readFile } from 'node:fs/promises';
import { describe, expect, it } from '@jest/globals';
import type { Overview } from '../../src/console/api/bodies.ts';
import { countOf, formatAge, formatCountdown, formatSpan } from '../../src/console/format.ts';
import { assessHealth, UNKNOWN_HEALTH } from '../../src/console/health.ts';

const NOW = Date.parse('2025-05-06T12:05:00Z');
const LATER = '2025-05-06T12:15:02.000Z';

/** A service at rest, but for what a test changes. */
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
    providerFailingSince: null,
    lastHour: sums,
    lastDay: sums,
    ...changes,
  };
}

const waiting = { pending: 7, working: 0, done: 5, failed: 0, total: 12 };

describe('whether all is well, in one sentence', () => {
  it('is said when nothing waits, and when work goes on', () => {
    expect(assessHealth(overviewWith(), NOW)).toEqual({
      level: 'good',
      sentence: 'All is well; nothing waits.',
      notes: [],
    });
    const busy = overviewWith(
      { stats: { ...waiting, working: 2 } },
      { waiting: { turn: 7, cooldown: 0, budget: 0, backoff: 0 } },
    );
    expect(assessHealth(busy, NOW)).toMatchObject({
      level: 'good',
      sentence: 'All is well; 7 jobs waiting, 2 in work.',
    });
  });

  it('a spent budget and a pause that the provider asked for are waiting, not illness', () => {
    const opensAt = { webhook: LATER, manual: LATER, polling: LATER };
    expect(assessHealth(overviewWith({ stats: waiting }, { opensAt }), NOW)).toMatchObject({
      level: 'waiting',
      sentence: expect.stringMatching(/^Waiting for the budget until \d\d:15 [A-Z0-9+:-]+; 7 jobs will run then\.$/),
    });
    expect(assessHealth(overviewWith({}, { opensAt }), NOW).level).toBe('good');
    expect(assessHealth(overviewWith({}, { blockedUntil: LATER }), NOW)).toMatchObject({
      level: 'waiting',
      sentence: expect.stringMatching(/^Waiting until \d\d:15 [A-Z0-9+:-]+: the provider asked for a pause\.$/),
    });
  });

  it('names the day’s limit as what everyone waits for', () => {
    const spent = overviewWith({}, { blockedUntil: LATER, daily: { used: 30_000, limit: 30_000 } });
    expect(assessHealth(spent, NOW)).toMatchObject({
      level: 'waiting',
      sentence: expect.stringMatching(
        /^Waiting until \d\d:15 [A-Z0-9+:-]+: the provider’s limit for the day is reached\.$/,
      ),
    });
  });

  it('a provider that fails, and webhooks that nobody works on, are', () => {
    expect(assessHealth(overviewWith({ providerFailingSince: '2025-05-06T12:01:00.000Z' }), NOW)).toMatchObject({
      level: 'bad',
      sentence: expect.stringMatching(/since \d\d:01/),
    });
    const behind = overviewWith(
      { stats: waiting, oldestDueS: { webhook: 300, manual: 0, polling: 0 } },
      { waiting: { turn: 7, cooldown: 0, budget: 0, backoff: 0 } },
    );
    expect(assessHealth(behind, NOW)).toMatchObject({ level: 'bad', sentence: expect.stringContaining('5 min') });
  });

  it('stands in the console’s manual with its meaning', async () => {
    const manual = await readFile(new URL('../../docs/console.md', import.meta.url), 'utf8');
    const beginnings = [...manual.matchAll(/^\| ([A-Z][^|…]+) …[^|]*\|/gm)].map(([, words = '']) => words);
    const opensAt = { webhook: LATER, manual: LATER, polling: LATER };
    const behind = { stats: waiting, oldestDueS: { webhook: 300, manual: 0, polling: 0 } };
    const sentences = [
      assessHealth(overviewWith(), NOW),
      assessHealth(overviewWith({ stats: waiting }, { opensAt }), NOW),
      assessHealth(overviewWith({}, { blockedUntil: LATER }), NOW),
      assessHealth(overviewWith({ providerFailingSince: LATER }), NOW),
      assessHealth(overviewWith(behind, { waiting: { turn: 7, cooldown: 0, budget: 0, backoff: 0 } }), NOW),
      UNKNOWN_HEALTH,
    ].map(({ sentence }) => sentence);
    const explained = sentences.map((sentence) => beginnings.filter((words) => sentence.startsWith(words)).length);
    expect(explained).toEqual(sentences.map(() => 1));
  });

  it('names athletes who need attention and jobs that failed', () => {
    const overview = overviewWith({ athletes: { healthy: 3, reconnect: 1, scope: 2 } });
    Object.assign(overview.lastHour.finished, { stored: 9, notFound: 1, unauthorized: 1, exhausted: 2, retry: 7 });
    expect(assessHealth(overview, NOW).notes.map(({ text }) => text)).toEqual([
      '1 athlete must connect again',
      '2 athletes granted too little',
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

  it('counts have their thousands apart and their noun in number', () => {
    expect([countOf(1, 'job'), countOf(0, 'job'), countOf(12_345, 'activity', 'activities')]).toEqual([
      '1 job',
      '0 jobs',
      '12,345 activities',
    ]);
  });
});
