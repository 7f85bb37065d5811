import { signal } from '@preact/signals';

/** The viewer's access: unknown until the service has answered, 'none' without a sign-in. */
export const access = signal<'unknown' | 'none' | 'read' | 'admin'>('unknown');

/** Whether the service ended the session, rather than the viewer. */
export const wasEnded = signal(false);

/** Why no sign-in can succeed, in the service's words; otherwise empty. */
export const closedReason = signal('');

/** Notes that the service no longer accepts the session. */
export function endSession(): void {
  wasEnded.value = wasEnded.peek() || mayLook();
  access.value = 'none';
}

/** Whether the viewer is signed in. */
export function mayLook(): boolean {
  return access.value === 'read' || access.value === 'admin';
}

/** Whether the viewer may change something. */
export function mayChange(): boolean {
  return access.value === 'admin';
}
