import type { BulkChange } from '../api/bodies.ts';
import { ask } from '../api/client.ts';
import { now } from '../clock.ts';
import { countOf, formatCount } from '../format.ts';
import type { Resource } from '../resource.ts';
import { mayChange } from '../session.ts';
import { Badge } from './badge.tsx';
import { act } from './messages.tsx';
import { Age } from './moment.tsx';

const SHOWN_AFTER_END_MS = 600_000;
const VERBS = { replay: 'Replay', retry: 'Retry', force: 'Re-fetch', delete: 'Delete' };

/** Bulk changes that run in the background or ended a short while ago, with progress. */
export function BulkList({ changes, of }: { changes: Resource<{ changes: BulkChange[] }>; of: 'jobs' | 'deliveries' }) {
  const shown = (changes.data?.changes ?? []).filter(
    ({ action, startedAt, finishedAt }) =>
      (action === 'replay') === (of === 'deliveries') &&
      now.value - Date.parse(finishedAt ?? startedAt) < SHOWN_AFTER_END_MS,
  );
  if (shown.length === 0) return null;
  return (
    <section class="block">
      <h2>Bulk changes</h2>
      <ul class="syncs">
        {shown.map((change) => (
          <li key={change.id}>
            <BulkItem change={change} onChange={changes.reload} />
          </li>
        ))}
      </ul>
    </section>
  );
}

function BulkItem({ change, onChange }: { change: BulkChange; onChange: () => void }) {
  const { id, action, state, total, changed, startedAt, error } = change;
  const title = `${VERBS[action]} ${action === 'replay' ? countOf(total, 'activity', 'activities') : countOf(total, 'job')}`;
  const cancel = async () => {
    await act(
      () => ask('POST', `/api/admin/job-changes/${id}/cancel`),
      () => `${title}: cancelled. What is changed stays.`,
    );
    onChange();
  };
  return (
    <>
      <div class="sync-head">
        <b>{title}</b> <Badge state={state} />
        {state === 'running' && mayChange() && (
          <button type="button" class="small" aria-label={`Cancel: ${title}`} onClick={cancel}>
            Cancel
          </button>
        )}
      </div>
      {state === 'running' && <progress aria-label={title} max={Math.max(1, total)} value={changed} />}
      <p class="faint">
        {formatCount(changed)} of {formatCount(total)} changed; started <Age at={startedAt} />
        {state === 'interrupted' && '. Its process stopped: start it again for the rest'}
        {error && <span class="error-text">; {error}</span>}
      </p>
    </>
  );
}
