import type { ComponentChildren } from 'preact';
import type { JobPage } from '../api/bodies.ts';
import { countOf, formatMoment, formatSpan, inWords } from '../format.ts';

interface Step {
  at: string;
  tone: string;
  title: string;
  text?: ComponentChildren;
}

const RESULTS = { retry: 'Failed; to be retried', put_back: 'Released', failed: 'Failed for good' };

/** Everything that happened to a job, oldest first: deliveries, attempts, status. */
export function JobTimeline({ page }: { page: JobPage }) {
  return (
    <ol class="timeline">
      {stepsOf(page).map(({ at, tone, title, text }) => (
        <li key={at + title} class={tone}>
          <span class="title">{title}</span>
          <time dateTime={at}>{formatMoment(at)}</time>
          {text && <span class="text">{text}</span>}
        </li>
      ))}
    </ol>
  );
}

function stepsOf({ job, attempts, deliveries }: JobPage): Step[] {
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
    ...attempts.map(
      (attempt): Step => ({
        at: attempt.endedAt,
        tone: attempt.result === 'failed' ? 'red' : 'amber',
        title: RESULTS[attempt.result],
        text: `${attempt.error} (ran for ${formatSpan(Date.parse(attempt.endedAt) - Date.parse(attempt.startedAt))})`,
      }),
    ),
  ];
  past.sort((a, b) => Date.parse(a.at) - Date.parse(b.at));
  return [...past, present(job)];
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
