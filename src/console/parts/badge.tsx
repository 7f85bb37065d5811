import { inWords } from '../format.ts';

const TONES: Record<string, string> = {
  pending: 'amber',
  waiting: 'amber',
  stale: 'amber',
  retry: 'amber',
  put_back: 'amber',
  scope: 'amber',
  working: 'blue',
  running: 'blue',
  done: 'green',
  finished: 'green',
  healthy: 'green',
  accepted: 'green',
  delivered: 'green',
  enabled: 'green',
  interrupted: 'red',
  failed: 'red',
  failing: 'red',
  exhausted: 'red',
  reconnect: 'red',
};

/** A state as a coloured word. */
export function Badge({ state }: { state: string }) {
  return <span class={`badge ${TONES[state] ?? 'grey'}`}>{inWords(state)}</span>;
}
