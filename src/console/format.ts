const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** A span of time in the two largest units that matter: "4 min 5 s", "2 h 10 min", "3 days". */
export function formatSpan(ms: number): string {
  const span = Math.max(0, ms);
  if (span < SECOND) return `${Math.round(span)} ms`;
  if (span < 10 * SECOND) return `${(span / SECOND).toFixed(1).replace(/\.0$/, '')} s`;
  if (span < MINUTE) return `${Math.floor(span / SECOND)} s`;
  if (span < HOUR) return pair(span, MINUTE, 'min', SECOND, 's');
  if (span < 2 * DAY) return pair(span, HOUR, 'h', MINUTE, 'min');
  return `${Math.round(span / DAY)} days`;
}

function pair(span: number, large: number, largeName: string, small: number, smallName: string): string {
  const rest = Math.floor((span % large) / small);
  return `${Math.floor(span / large)} ${largeName}${rest > 0 ? ` ${rest} ${smallName}` : ''}`;
}

/** The length of an activity: "34 min", "1 h 17 min". */
export function formatDuration(seconds: number): string {
  const ms = seconds * SECOND;
  return ms < HOUR ? `${Math.floor(ms / MINUTE)} min` : pair(ms, HOUR, 'h', MINUTE, 'min');
}

/** How far a time is from now: "3 min ago", "in 12 s", "now". */
export function formatAge(at: string, now: number): string {
  const ms = now - Date.parse(at);
  if (Math.abs(ms) < SECOND) return 'now';
  const span = roughly(Math.abs(ms));
  return ms > 0 ? `${span} ago` : `in ${span}`;
}

function roughly(ms: number): string {
  if (ms < MINUTE) return `${Math.floor(ms / SECOND)} s`;
  if (ms < HOUR) return `${Math.floor(ms / MINUTE)} min`;
  if (ms < 2 * DAY) return `${Math.floor(ms / HOUR)} h`;
  return `${Math.floor(ms / DAY)} days`;
}

/** A countdown as a clock shows it: "07:12", "1:02:03". */
export function formatCountdown(ms: number): string {
  const seconds = Math.max(0, Math.ceil(ms / SECOND));
  const parts = [Math.floor(seconds / 3600), Math.floor((seconds % 3600) / 60), seconds % 60];
  return (parts[0] === 0 ? parts.slice(1) : parts)
    .map((part, index) => String(part).padStart(index === 0 && parts[0] !== 0 ? 1 : 2, '0'))
    .join(':');
}

// Times are in the browser's zone, which they name: logs and the command line use UTC.
const MINUTES = { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' } as const;
const ZONED = { ...MINUTES, timeZoneName: 'short' } as const;
const BARE_CLOCK = new Intl.DateTimeFormat(undefined, MINUTES);
const CLOCK = new Intl.DateTimeFormat(undefined, ZONED);
const SECONDS = new Intl.DateTimeFormat(undefined, { ...ZONED, second: '2-digit' });
const DAYTIME = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', ...ZONED });
const OLD = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium' });
const HALF_A_YEAR = 182 * DAY;

/** The time of day here: "14:15 GMT+1". */
export function formatClock(at: string): string {
  return CLOCK.format(new Date(at));
}

/** From one time of day here to another: "14:15 – 14:30 GMT+1". */
export function formatClocks(from: string, to: string): string {
  return `${BARE_CLOCK.format(new Date(from))} – ${formatClock(to)}`;
}

/** The time of day here without its zone, for the ticks of an axis. @param at epoch seconds */
export function formatTick(at: number): string {
  return BARE_CLOCK.format(new Date(at * 1000));
}

/** The date here. */
export function formatDate(at: string): string {
  return OLD.format(new Date(at));
}

/** The time of day here, to the second. */
export function formatTime(at: string): string {
  return SECONDS.format(new Date(at));
}

/** Day and time here, to the second. */
export function formatMoment(at: string): string {
  return `${formatDate(at)}, ${formatTime(at)}`;
}

/** The beginning of a day here. @param day as a date field gives it: "2025-01-31" */
export function startOfDay(day: string): string {
  return new Date(`${day}T00:00:00`).toISOString();
}

/** Day and time here; only the date if it is more than half a year ago. */
export function formatDayTime(at: string): string {
  const date = new Date(at);
  return (Math.abs(Date.now() - date.getTime()) < HALF_A_YEAR ? DAYTIME : OLD).format(date);
}

const COUNT = new Intl.NumberFormat('en-US');

/** A count with thousands separators. */
export function formatCount(n: number): string {
  return COUNT.format(n);
}

/** "1 job", "2,000 jobs". */
export function countOf(n: number, one: string, many = `${one}s`): string {
  return `${formatCount(n)} ${n === 1 ? one : many}`;
}

/** "TrailRun" reads better as "Trail Run". */
export function spaced(word: string): string {
  return word.replace(/([a-z])([A-Z])/g, '$1 $2');
}

/** "notFound" as a word for people: "not found". */
export function inWords(name: string): string {
  return name
    .replace(/([a-z])([A-Z])/g, '$1 $2')
    .replaceAll('_', ' ')
    .toLowerCase();
}

export function formatDistance(metres: number): string {
  return metres >= 1000 ? `${(metres / 1000).toFixed(1)} km` : `${Math.round(metres)} m`;
}
