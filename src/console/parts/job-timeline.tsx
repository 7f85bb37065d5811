import type { ComponentChildren } from 'preact';
import type { Attempt, JobPage, JobRequest } from '../api/bodies.ts';
import { countOf, formatMoment, formatSpan, formatTime, inWords } from '../format.ts';

interface Step {
  at: string;
  tone: string;
  title: string;
  text?: ComponentChildren;
}

const RESULTS = { done: 'Succeeded', retry: 'Failed; to be retried', put_back: 'Released', failed: 'Failed for good' };

/** Everything that happened to a job, oldest first: requests, deliveries, runs, status. */
export function JobTimeline({ page }: { page: JobPage }) {
  return (
    <ol class="timeline">
      {stepsOf(page).map(({ at, tone, title, text }, n) => (
        <li key={`${n} ${title}`} class={tone}>
          <span class="title">{title}</span>
          <time dateTime={at}>{formatMoment(at)}</time>
          {text && <span class="text">{text}</span>}
        </li>
      ))}
    </ol>
  );
}

function stepsOf({ job, attempts, requests, deliveries }: JobPage): Step[] {
  const past: Step[] = [
    { at: job.createdAt, tone: 'grey', title: 'Created' },
    ...deliveries.map((delivery): Step => {
      const updates = Object.keys(delivery.updates);
      return {
        at: delivery.receivedAt,
        tone: delivery.result === 'stale' ? 'amber' : 'blue',
        title: `Webhook: ${delivery.aspect}${delivery.result === 'stale' ? ', out of date' : ''}`,
        text: `${delivery.deliveries > 1 ? `Delivered ${delivery.deliveries} times. ` : ''}${updates.length > 0 ? `Changed: ${updates.join(', ')}. ` : ''}Happened ${formatMoment(delivery.eventTime)}.`,
      };
    }),
    ...requests.map(asked),
    ...attempts.map(ran),
  ];
  past.sort((a, b) => Date.parse(a.at) - Date.parse(b.at));
  return [...past, present(job)];
}

function asked({ at, kind, by, source }: JobRequest): Step {
  const title = { ...ASKED, replay: `Replay of delivery ${source}`, sync: `Requested by sync ${source}` }[kind];
  return { at, tone: 'blue', title: by === null ? title : `${title}, by ${ASKERS[by]}` };
}

const ASKED = {
  request: 'Requested',
  retry: 'Retry',
  polling: 'Requested by polling',
  connect: 'Re-opened: the athlete connected',
};
const ASKERS = { admin: 'admin token', session: 'browser session' };

function ran({ startedAt, endedAt, result, outcome, error }: Attempt): Step {
  const tookMs = Date.parse(endedAt) - Date.parse(startedAt);
  return {
    at: endedAt,
    tone: { done: 'green', retry: 'amber', put_back: 'amber', failed: 'red' }[result],
    title: `${RESULTS[result]}${outcome ? `: ${inWords(outcome)}` : ''}`,
    text: `${error === null ? '' : `${error} `}Started ${formatTime(startedAt)}, ran for ${formatSpan(tookMs)}.`,
  };
}

function present(job: JobPage['job']): Step {
  if (job.status === 'working') return { at: job.updatedAt, tone: 'blue', title: 'Runs now' };
  if (job.status === 'pending') {
    return {
      at: job.nextRunAt,
      tone: 'amber',
      title: 'Next run',
      text: job.attempts > 0 ? `After ${countOf(job.attempts, 'failure')}.` : undefined,
    };
  }
  return {
    at: job.updatedAt,
    tone: job.status === 'done' ? 'green' : 'red',
    title: `Ended: ${inWords(job.outcome ?? job.status)}`,
  };
}
