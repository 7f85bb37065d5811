import type { Endpoint } from '../api/bodies.ts';
import { formatCount, formatSpan } from '../format.ts';
import { Badge } from './badge.tsx';
import { Age, Lasting } from './moment.tsx';

const MOST_WAITING = 1000; // the service counts no further
const MOST_ATTEMPTS = 1000;

const REASONS = { gone: 'it answered 410', failing: 'it failed for five days', request: 'by request' };

/** Whether changes reach an endpoint, since when not, and why. */
export function EndpointState({ endpoint }: { endpoint: Endpoint }) {
  const { disabledAt, disabledReason, failingSince } = endpoint;
  if (disabledAt !== null)
    return (
      <>
        <Badge state="disabled" />{' '}
        <span class="outcome">
          {disabledReason && `${REASONS[disabledReason]}, `}
          <Age at={disabledAt} />
        </span>
      </>
    );
  if (failingSince !== null)
    return (
      <>
        <Badge state="failing" />{' '}
        <span class="outcome">
          for <Lasting since={failingSince} />
        </span>
      </>
    );
  return <Badge state="enabled" />;
}

/** "98% of 512", of the last day's attempts. */
export function successOf({ recent: { attempts, delivered } }: Endpoint): string {
  if (attempts === 0) return 'none sent';
  // A failure among many is never rounded away.
  const percent = delivered === attempts ? 100 : Math.min(99, Math.round((100 * delivered) / attempts));
  return `${percent}% of ${formatCount(attempts)}${attempts === MOST_ATTEMPTS ? ' newest' : ''}`;
}

/** "12 ms, 1.5 s". */
export function latencyOf({ recent: { p50Ms, p95Ms } }: Endpoint): string {
  return p50Ms === null || p95Ms === null ? '–' : `${formatSpan(p50Ms)}, ${formatSpan(p95Ms)}`;
}

/** The answer to the newest failed attempt, and when. */
export function LastFailure({ endpoint: { lastFailure } }: { endpoint: Endpoint }) {
  if (lastFailure === null) return <span class="faint">none</span>;
  return (
    <>
      <span class="error-text" title={failureOf(lastFailure)}>
        {failureOf(lastFailure)}
      </span>{' '}
      <span class="whole">
        <Age at={lastFailure.at} />
      </span>
    </>
  );
}

/** "HTTP 500", or why there was no answer. */
export function failureOf({ status, error }: { status: number | null; error: string | null }): string {
  return status === null ? (error ?? 'no answer') : `HTTP ${status}`;
}

/** How many deliveries wait, and for how long the oldest has. */
export function Backlog({ endpoint: { waiting, waitingSince } }: { endpoint: Endpoint }) {
  if (waiting === 0 || waitingSince === null) return <span class="faint">none</span>;
  return (
    <>
      {formatCount(waiting)}
      {waiting === MOST_WAITING && ' or more'}{' '}
      <span class="whole">
        (oldest <Lasting since={waitingSince} />)
      </span>
    </>
  );
}
