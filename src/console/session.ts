import { signal } from '@preact/signals';

/** Who looks: unknown until the service has said, 'none' when nobody is signed in. */
export const access = signal<'unknown' | 'none' | 'read' | 'admin'>('unknown');

/** Whether the service ended the session, which whoever looks did not ask for. */
export const wasEnded = signal(false);

/** Why no sign-in can succeed, in the service's words; otherwise empty. */
export const closedReason = signal('');

/** Notes that the service takes whoever looks for nobody. */
export function endSession(): void {
  wasEnded.value = wasEnded.peek() || mayLook();
  access.value = 'none';
}

/** Whether somebody is signed in. */
export function mayLook(): boolean {
  return access.value === 'read' || access.value === 'admin';
}

/** Whether whoever looks may change something. */
export function mayChange(): boolean {
  return access.value === 'admin';
}
