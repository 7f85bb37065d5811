import { ask, withQuery } from '../api/client.ts';
import { countOf, formatMoment, startOfDay } from '../format.ts';
import { confirmed } from './confirm.tsx';
import { act } from './messages.tsx';

interface SyncRequest {
  after?: string;
  before?: string;
  force?: boolean;
}

/** Starts a bulk sync of one athlete, or of all after a confirmation that gives the cost. */
export function SyncForm({ athleteId, onBegun }: { athleteId?: string; onBegun: () => void }) {
  const begin = async (event: Event) => {
    event.preventDefault();
    const data = new FormData(event.currentTarget as HTMLFormElement);
    const day = (name: string) => (data.get(name) ? { [name]: startOfDay(String(data.get(name))) } : {});
    const body: SyncRequest = { ...day('after'), ...day('before'), ...(data.has('force') ? { force: true } : {}) };
    const path = athleteId === undefined ? '/api/admin/sync' : `/api/admin/athletes/${athleteId}/sync`;
    const begun = await act(
      async () => {
        if (athleteId === undefined && !(await confirmedForAll(body))) return undefined;
        return ask<{ id: string }>('POST', path, { body });
      },
      (answer) => (answer ? `Sync ${answer.id} has started.` : 'Nothing was started.'),
    );
    if (begun) onBegun();
  };
  return (
    <form class="filter" onSubmit={begin}>
      <label>
        <span>After (optional)</span>
        <input type="date" name="after" />
      </label>
      <label>
        <span>Before (optional)</span>
        <input type="date" name="before" />
      </label>
      <label class="check">
        <input type="checkbox" name="force" />
        <span>Re-fetch activities already stored</span>
      </label>
      <button type="submit">{athleteId === undefined ? 'Sync all athletes' : 'Sync'}</button>
    </form>
  );
}

async function confirmedForAll({ after, before, force }: SyncRequest): Promise<boolean> {
  const query = { after, before, force: force ? 'true' : undefined };
  const forecast = await ask<{ athletes: number; calls: number; expectedEnd: string }>(
    'GET',
    withQuery('/api/admin/sync/forecast', query),
  );
  return confirmed({
    title: `Sync ${countOf(forecast.athletes, 'athlete')}?`,
    text: `It takes at least ${countOf(forecast.calls, 'call')} of the provider’s budget, and one more for each activity that is not stored yet. Expected end: ${formatMoment(forecast.expectedEnd)} or later. Webhooks keep their share of the budget.`,
    action: 'Sync all athletes',
  });
}
