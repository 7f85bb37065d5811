import type { Sync } from '../api/bodies.ts';
import { ask } from '../api/client.ts';
import { countOf, formatCount, formatDayTime } from '../format.ts';
import { mayChange } from '../session.ts';
import { AthleteLink } from './athlete-link.tsx';
import { Badge } from './badge.tsx';
import { act } from './messages.tsx';
import { Age } from './moment.tsx';
import { Empty } from './shown.tsx';

/** Bulk syncs with their progress and expected end. */
export function SyncList({ syncs, onChange }: { syncs: readonly Sync[]; onChange: () => void }) {
  if (syncs.length === 0) return <Empty>No syncs yet.</Empty>;
  return (
    <ul class="syncs">
      {syncs.map((sync) => (
        <li key={sync.id}>
          <SyncItem sync={sync} onChange={onChange} />
        </li>
      ))}
    </ul>
  );
}

function SyncItem({ sync, onChange }: { sync: Sync; onChange: () => void }) {
  const open = sync.state === 'running' || sync.state === 'waiting';
  const settled = sync.fetched + sync.fetchesFailed;
  const cancel = async () => {
    await act(
      () => ask('POST', `/api/admin/syncs/${sync.id}/cancel`),
      () => `Sync ${sync.id} cancelled.`,
    );
    onChange();
  };
  return (
    <>
      <div class="sync-head">
        <b>Sync {sync.id}</b> <Badge state={sync.state} />{' '}
        {sync.athleteId === null ? 'all athletes' : <AthleteLink id={sync.athleteId} />}
        {sync.after && ` from ${formatDayTime(sync.after)}`} {sync.force && 'forced'}
        {open && mayChange() && (
          <button type="button" class="small" onClick={cancel} aria-label={`Cancel sync ${sync.id}`}>
            Cancel
          </button>
        )}
      </div>
      {open && (
        <progress
          aria-label={`Progress of sync ${sync.id}`}
          {...(sync.total === null ? {} : { max: Math.max(1, sync.total), value: sync.total === 0 ? 1 : settled })}
        />
      )}
      <p class="faint">
        {countOf(sync.listed, 'activity', 'activities')} listed, {formatCount(sync.queued)} queued,{' '}
        {formatCount(sync.fetched)} fetched{sync.fetchesFailed > 0 && `, ${formatCount(sync.fetchesFailed)} failed`}
        {sync.athletes.total > 1 && `; lists of ${sync.athletes.listed} of ${sync.athletes.total} athletes read`}
        {open && sync.expectedEnd && (
          <>
            ; expected to end <Age at={sync.expectedEnd} />
          </>
        )}
        {sync.finishedAt && (
          <>
            ; ended <Age at={sync.finishedAt} />
          </>
        )}
        {sync.error && <span class="error-text">; {sync.error}</span>}
      </p>
    </>
  );
}
