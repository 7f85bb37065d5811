import { ask } from '../api/client.ts';
import { startOfDay } from '../format.ts';
import { act } from './messages.tsx';

/** Begins a bulk sync of one athlete, or of all. */
export function SyncForm({ athleteId, onBegun }: { athleteId?: string; onBegun: () => void }) {
  const begin = async (event: Event) => {
    event.preventDefault();
    const data = new FormData(event.currentTarget as HTMLFormElement);
    const day = (name: string) => (data.get(name) ? { [name]: startOfDay(String(data.get(name))) } : {});
    const body = { ...day('after'), ...day('before'), ...(data.has('force') ? { force: true } : {}) };
    const path = athleteId === undefined ? '/api/admin/sync' : `/api/admin/athletes/${athleteId}/sync`;
    const begun = await act(
      () => ask<{ id: string }>('POST', path, { body }),
      ({ id }) => `Sync ${id} has begun.`,
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
        <span>Fetch also what is stored</span>
      </label>
      <button type="submit">{athleteId === undefined ? 'Sync all athletes' : 'Sync'}</button>
    </form>
  );
}
