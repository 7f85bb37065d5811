import type { SyncProgress } from '../flows/sync-progress.ts';

const WIDTH = 24;

/** A sync's progress, in one line with a bar. */
export function toProgressLine(sync: SyncProgress, now = Date.now()): string {
  const done = sync.fetched + sync.fetchesFailed;
  const lists = sync.athletes.total - sync.athletes.listed - sync.athletes.failed;
  return [
    `sync ${sync.id} ${bar(shareOf(sync))}`,
    `${done}/${sync.queued}${sync.total === null ? '+' : ''} fetched`,
    ...(sync.fetchesFailed > 0 ? [`${sync.fetchesFailed} of them failed`] : []),
    ...(lists > 0 && sync.finishedAt === null ? [`${lists} ${lists === 1 ? 'list' : 'lists'} to read`] : []),
    stateOf(sync, now),
  ].join(' · ');
}

/** From 0 to 1. While lists are still being read, the number of fetches is unknown, and the bar does not fill. */
export function shareOf(sync: SyncProgress): number {
  if (sync.state === 'finished') return 1;
  const fetched = sync.queued === 0 ? (sync.total === null ? 0 : 1) : (sync.fetched + sync.fetchesFailed) / sync.queued;
  if (sync.total !== null) return fetched;
  return fetched * (sync.athletes.listed / Math.max(1, sync.athletes.total));
}

function bar(share: number): string {
  const full = Math.floor(share * WIDTH);
  return `[${'█'.repeat(full)}${'░'.repeat(WIDTH - full)}] ${String(Math.floor(share * 100)).padStart(3)}%`;
}

function stateOf(sync: SyncProgress, now: number): string {
  if (sync.state === 'waiting')
    return `waiting until ${clockOf(sync.waitingUntil, now)}, ends about ${clockOf(sync.expectedEnd, now)}`;
  if (sync.state === 'running') return `ends about ${clockOf(sync.expectedEnd, now)}`;
  return sync.state;
}

/** A time of day, with its date unless that is today; in UTC, as in lists and in the log. */
function clockOf(iso: string | null, now: number): string {
  if (iso === null) return '?';
  const [date = '', time = ''] = new Date(iso).toISOString().slice(0, 19).split('T');
  return `${date === new Date(now).toISOString().slice(0, 10) ? '' : `${date} `}${time} UTC`;
}
