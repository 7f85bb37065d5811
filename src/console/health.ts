import { FAILED_OUTCOMES } from '../domain/job.ts';
import type { Overview } from './api/bodies.ts';
import { countFinished } from './finished.ts';
import { countOf, formatClock, formatSpan } from './format.ts';

/** Whether all is well, in one sentence. */
export interface Health {
  level: 'good' | 'waiting' | 'bad' | 'unknown';
  sentence: string;
  /** What else deserves a look, without being an alarm. */
  notes: { text: string; to: string }[];
}

const BEHIND_S = 60;

/** What can be said while the figures cannot be read: those that were read before may be wrong by now. */
export const UNKNOWN_HEALTH: Health = {
  level: 'unknown',
  sentence: 'How the service stands is not known: its figures could not be read anew.',
  notes: [],
};

/** Judges the figures. Being held back by the provider's limits is waiting, not being unwell. */
export function assessHealth(overview: Overview, now: number): Health {
  return { ...judge(overview, now), notes: notesOf(overview) };
}

function judge({ providerFailingSince, budget, oldestDueS, stats }: Overview, now: number): Omit<Health, 'notes'> {
  if (providerFailingSince) {
    return {
      level: 'bad',
      sentence: `The provider has not answered properly since ${formatClock(providerFailingSince)}. Fetches are tried again by themselves.`,
    };
  }
  const { waiting } = budget;
  if (budget.blockedUntil && Date.parse(budget.blockedUntil) > now) {
    return {
      level: 'waiting',
      sentence: `Waiting until ${formatClock(budget.blockedUntil)}: ${whyBlocked(budget)}.`,
    };
  }
  const opensAt = budget.opensAt.webhook;
  if (opensAt && Date.parse(opensAt) > now && stats.pending > 0) {
    return {
      level: 'waiting',
      sentence: `Waiting for the budget until ${formatClock(opensAt)}; ${countOf(stats.pending, 'job')} will run then.`,
    };
  }
  if (oldestDueS.webhook > BEHIND_S && waiting.turn > 0) {
    return {
      level: 'bad',
      sentence: `Behind: a webhook’s job has been due for ${formatSpan(oldestDueS.webhook * 1000)} and no worker took it.`,
    };
  }
  return { level: 'good', sentence: `All is well; ${workOf(stats, waiting)}` };
}

function whyBlocked({ daily }: Overview['budget']): string {
  const isDaySpent = daily.limit !== null && daily.used >= daily.limit;
  return isDaySpent ? 'the provider’s limit for the day is reached' : 'the provider asked for a pause';
}

function workOf({ pending, working }: Overview['stats'], waiting: Overview['budget']['waiting']): string {
  if (pending === 0 && working === 0) return 'nothing waits.';
  if (pending === 0) return `${countOf(working, 'job')} in work, none waiting.`;
  const paced = waiting.budget + waiting.cooldown;
  return `${countOf(pending, 'job')} waiting${paced === pending ? ' at the pace that the provider allows' : ''}, ${working === 0 ? 'none' : working} in work.`;
}

function notesOf({ athletes, budget, lastHour }: Overview): Health['notes'] {
  const notes: Health['notes'] = [];
  if (athletes.reconnect > 0)
    notes.push({
      text: `${countOf(athletes.reconnect, 'athlete')} must connect again`,
      to: '/athletes?state=reconnect',
    });
  if (athletes.scope > 0)
    notes.push({ text: `${countOf(athletes.scope, 'athlete')} granted too little`, to: '/athletes?state=scope' });
  const failed = countFinished(lastHour.finished, FAILED_OUTCOMES);
  if (failed > 0) notes.push({ text: `${countOf(failed, 'job')} failed in the last hour`, to: '/jobs?status=failed' });
  if (budget.reducedCapacity !== null)
    notes.push({ text: `budget reduced to ${budget.reducedCapacity} after the provider’s refusal`, to: '/' });
  return notes;
}
