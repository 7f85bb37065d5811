import { signal } from '@preact/signals';

/** Who looks: unknown until the service has said, 'none' when nobody is signed in. */
export const access = signal<'unknown' | 'none' | 'read' | 'admin'>('unknown');

/** Whether whoever looks may change something. */
export function mayChange(): boolean {
  return access.value === 'admin';
}
