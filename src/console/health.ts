import { FAILED_OUTCOMES } from '../domain/job.ts';
import type { Overview } from './api/bodies.ts';
import { countFinished } from './finished.ts';
import { countOf, formatClock, formatSpan } from './format.ts';

/** From worst to best. `waiting` is caused by the provider, and needs no operator. */
export const LEVELS = ['bad', 'warning', 'waiting', 'good'] as const;
export type Level = (typeof LEVELS)[number];

/** One thing that the figures say, the view that shows more of it, and the runbook that says what to do. */
export interface Judgement {
  level: Level;
  sentence: string;
  to: string;
  runbook?: 'process' | 'provider' | 'queue' | 'webhook';
}

/** All findings from the figures, worst first, and minor ones that are no alarm. */
export interface Health {
  level: Level;
  judgements: Judgement[];
  notes: { text: string; to: string }[];
}

const BEHIND_S = 60;
const FEW_FAILURES = 3;
const BAD_SHARE = 0.5;
const LONG_SHARE = 0.1;
const LONG_MS = 300_000;

/** The finding while the figures cannot be read: earlier ones may be wrong by now. */
export const UNKNOWN_HEALTH: Judgement = {
  level: 'bad',
  sentence: 'The service’s status is unknown: its figures cannot be read.',
  to: '/',
  runbook: 'process',
};

/** Judges the figures. Being held back by the provider's limits is waiting, not a fault. */
export function assessHealth(overview: Overview, now: number): Health {
  const found = [
    judgeFetches(overview, now),
    judgeSubscription(overview),
    judgeDoctor(overview),
    judgeAthletes(overview),
    judgeDelay(overview),
    ...judgePauses(overview),
    judgeBudget(overview, now),
  ].filter((judgement) => judgement !== undefined);
  const judgements = LEVELS.flatMap((level) => found.filter((judgement) => judgement.level === level));
  if (judgements.length === 0)
    judgements.push({ level: 'good', sentence: `All is well; ${workOf(overview)}`, to: '/jobs' });
  return { level: judgements[0]?.level ?? 'good', judgements, notes: notesOf(overview) };
}

// From the first failure on; one success in between proves nothing.
function judgeFetches({ fetches: { succeeded, failed, failingSince } }: Overview, now: number): Judgement | undefined {
  if (failed === 0) return undefined;
  const share = failed / (failed + succeeded);
  const isLong = failingSince !== null && now - Date.parse(failingSince) > LONG_MS;
  const isBad = failed >= FEW_FAILURES && share >= (isLong ? LONG_SHARE : BAD_SHARE);
  const since = failingSince === null ? '' : `, failing since ${formatClock(failingSince)}`;
  return {
    level: isBad ? 'bad' : 'warning',
    sentence: `Fetches are failing: ${failed} of ${failed + succeeded} in the last five minutes (${Math.round(share * 100)}%)${since}. They are retried automatically.`,
    to: '/jobs',
    runbook: 'provider',
  };
}

function judgeSubscription({ subscriptions }: Overview): Judgement | undefined {
  if (subscriptions > 0) return undefined;
  return {
    level: 'bad',
    sentence: 'No webhook can arrive: there is no subscription. Create one.',
    to: '/subscriptions',
    runbook: 'webhook',
  };
}

function judgeDoctor({ doctor }: Overview): Judgement | undefined {
  const seen = { to: '/subscriptions', runbook: 'webhook' } as const;
  if (!doctor) return { ...seen, level: 'waiting', sentence: 'Checking whether webhooks can arrive.' };
  if (doctor.faults.length === 0) return undefined;
  const checks = doctor.faults.map(({ check }) => check).join(', ');
  return {
    ...seen,
    level: 'bad',
    sentence: `The doctor found ${countOf(doctor.faults.length, 'fault')} that can keep webhooks away: ${checks}.`,
  };
}

function judgeAthletes({ athletes: { healthy, reconnect, scope } }: Overview): Judgement | undefined {
  if (healthy > 0) return undefined;
  const isEmpty = reconnect + scope === 0;
  return {
    level: isEmpty ? 'warning' : 'bad',
    sentence: isEmpty
      ? 'Nothing can arrive: no athlete is connected. Connect one.'
      : 'Nothing can be fetched: every athlete must reconnect or grant a wider scope.',
    to: '/athletes',
    runbook: 'provider',
  };
}

function judgePauses({ pauses }: Overview): Judgement[] {
  return pauses.map(({ reason, pausedBy, pausedAt, note }) => ({
    level: 'warning',
    sentence: `Fetching is paused (${reason === 'all' ? 'all of it' : `${reason} jobs`}) since ${formatClock(pausedAt)} by ${pausedBy}: ${note}`,
    to: '/processes',
    runbook: 'queue',
  }));
}

function judgeDelay({ oldestDueS, budget: { waiting }, pauses }: Overview): Judgement | undefined {
  const isPaused = pauses.some(({ reason }) => reason === 'all' || reason === 'webhook');
  if (isPaused || oldestDueS.webhook <= BEHIND_S || waiting.turn === 0) return undefined;
  return {
    level: 'bad',
    sentence: `Behind: a webhook’s job has been due for ${formatSpan(oldestDueS.webhook * 1000)} and no worker claimed it.`,
    to: '/jobs?status=pending',
    runbook: 'queue',
  };
}

function judgeBudget({ budget, stats }: Overview, now: number): Judgement | undefined {
  const seen = { level: 'waiting', to: '/jobs?status=pending', runbook: 'provider' } as const;
  if (budget.blockedUntil && Date.parse(budget.blockedUntil) > now)
    return { ...seen, sentence: `Waiting until ${formatClock(budget.blockedUntil)}: ${whyBlocked(budget)}.` };
  const opensAt = budget.opensAt.webhook;
  if (opensAt && Date.parse(opensAt) > now && stats.pending > 0)
    return {
      ...seen,
      sentence: `Waiting for the budget until ${formatClock(opensAt)}; ${countOf(stats.pending, 'job')} will run then.`,
    };
  return undefined;
}

function whyBlocked({ daily }: Overview['budget']): string {
  const isDaySpent = daily.limit !== null && daily.used >= daily.limit;
  return isDaySpent ? 'the provider’s limit for the day is reached' : 'the provider requested a pause';
}

function workOf({ stats: { pending, working }, budget: { waiting } }: Overview): string {
  if (pending === 0 && working === 0) return 'nothing waits.';
  if (pending === 0) return `${countOf(working, 'job')} running, none waiting.`;
  const paced = waiting.budget + waiting.cooldown;
  return `${countOf(pending, 'job')} waiting${paced === pending ? ' at the pace that the provider allows' : ''}, ${working === 0 ? 'none' : working} running.`;
}

function notesOf({ athletes, budget, lastHour }: Overview): Health['notes'] {
  const notes: Health['notes'] = [];
  if (athletes.reconnect > 0)
    notes.push({ text: `${countOf(athletes.reconnect, 'athlete')} must reconnect`, to: '/athletes?state=reconnect' });
  if (athletes.scope > 0)
    notes.push({
      text: `${countOf(athletes.scope, 'athlete')} with insufficient scope`,
      to: '/athletes?state=scope',
    });
  const failed = countFinished(lastHour.finished, FAILED_OUTCOMES);
  if (failed > 0) notes.push({ text: `${countOf(failed, 'job')} failed in the last hour`, to: '/jobs?status=failed' });
  if (budget.reducedCapacity !== null)
    notes.push({ text: `budget reduced to ${budget.reducedCapacity} after a 429 from the provider`, to: '/' });
  return notes;
}
