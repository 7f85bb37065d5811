import { signal } from '@preact/signals';

const TICK_MS = 1000;
// The header's time has whole seconds, and is delayed by the network.
const TOLERANCE_MS = 3000;

let offsetMs = 0;

/** The service's time in milliseconds, once a second: countdowns and ages follow it. */
export const now = signal(Date.now());

/** The service's time in milliseconds. */
export function serviceTime(): number {
  return Date.now() + offsetMs;
}

/** Corrects the clock by an answer's Date header if this machine's is wrong. */
export function noteServerTime(date: string | null): void {
  const difference = Date.parse(date ?? '') - Date.now();
  if (Number.isNaN(difference)) return;
  offsetMs = Math.abs(difference) > TOLERANCE_MS ? difference : 0;
}

/** Starts the clock; it stops while the page is hidden. */
export function startClock(): void {
  const tick = () => {
    if (!document.hidden) now.value = serviceTime();
  };
  setInterval(tick, TICK_MS);
  document.addEventListener('visibilitychange', tick);
}
