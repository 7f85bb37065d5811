import { signal } from '@preact/signals';
import { ask, withQuery } from './api/client.ts';
import { onLive } from './live.ts';

const MOST = 200; // that one request may ask for
const names = signal<Readonly<Record<string, string>>>({});
const asked = new Set<string>();
let wanted: string[] = [];

/** An athlete's name; undefined until it is known, and for one who is not connected or has none. */
export function nameOfAthlete(id: string): string | undefined {
  if (!asked.has(id)) {
    asked.add(id);
    wanted.push(id);
    // The rows of one page ask together.
    if (wanted.length === 1) queueMicrotask(() => void readNames());
  }
  return names.value[id];
}

async function readNames(): Promise<void> {
  const ids = wanted;
  wanted = [];
  for (let n = 0; n < ids.length; n += MOST) {
    const some = ids.slice(n, n + MOST);
    try {
      const read = await ask<{ names: Record<string, string> }>(
        'GET',
        withQuery('/api/admin/athlete-names', { ids: some.join(',') }),
      );
      names.value = { ...names.value, ...read.names };
    } catch {
      // The ids are shown without names; the next page that shows them asks again.
      for (const id of some) asked.delete(id);
    }
  }
}

// Connected, renamed or erased: an erased athlete's name must not stay.
onLive(['athlete'], () => {
  asked.clear();
  names.value = {};
});
