import { now } from '../clock.ts';
import { formatAge, formatDate, formatMoment, formatSpan, formatTime } from '../format.ts';

/** A time as its distance from now, updated live; the exact time is in the tooltip. */
export function Age({ at }: { at: string | null }) {
  if (at === null) return <span class="faint">never</span>;
  return (
    <time dateTime={at} title={formatMoment(at)}>
      {formatAge(at, now.value)}
    </time>
  );
}

/** The minimum time until a moment. */
export function Earliest({ at }: { at: string }) {
  return (
    <time dateTime={at} title={`not before ${formatMoment(at)}`}>
      {formatAge(at, now.value).replace(/^in /, 'in ≥ ')}
    </time>
  );
}

/** A time as day and clock; where it must break, it does so between them. */
export function Moment({ at }: { at: string }) {
  return (
    <time dateTime={at} class="moment">
      <span>{formatDate(at)},</span> <span>{formatTime(at)}</span>
    </time>
  );
}

/** How long something has lasted. */
export function Lasting({ since }: { since: string }) {
  return (
    <time dateTime={since} title={`since ${formatMoment(since)}`}>
      {formatSpan(now.value - Date.parse(since))}
    </time>
  );
}
