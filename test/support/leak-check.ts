import { createHook } from 'node:async_hooks';
import { setTimeout as delay } from 'node:timers/promises';

const SETTLE_MS = 2000;
const POLL_MS = 10;

/** What keeps a process alive, by the names of the runtime. */
const WATCHED = new Map([
  ['Timeout', 'timer'],
  ['TCPSERVERWRAP', 'TCP server'],
  ['TCPWRAP', 'TCP socket'],
  ['PIPESERVERWRAP', 'local server'],
  ['PIPEWRAP', 'pipe'],
  ['UDPWRAP', 'UDP socket'],
  ['PROCESSWRAP', 'child process'],
  ['SIGNALWRAP', 'signal handler'],
  ['FSEVENTWRAP', 'file watcher'],
  ['STATWATCHER', 'file watcher'],
  ['WORKER', 'worker thread'],
  ['MESSAGEPORT', 'message port'],
]);

interface Resource {
  kind: string;
  handle: WeakRef<{ hasRef?: () => boolean; fd?: number }>;
  origin: Error;
}

/** Notes what a test file opens, from the creation of this object on. */
export interface LeakCheck {
  /**
   * What is still open and would keep the process alive, with the place that opened it. Waits up to 2 s
   * for pending closes.
   */
  findLeaks(): Promise<string[]>;
  end(): void;
}

/** Starts to note every server, socket, timer, process and watcher that is opened in this thread. */
export function startLeakCheck(): LeakCheck {
  const open = new Map<number, Resource>();
  const hook = createHook({
    init: (id, type, _trigger, handle) => {
      const kind = WATCHED.get(type);
      if (kind !== undefined) open.set(id, { kind, handle: new WeakRef(handle), origin: new Error(kind) });
    },
    destroy: (id) => {
      open.delete(id);
    },
    trackPromises: false, // a promise keeps nothing alive, and they are most of what a test makes
  });
  hook.enable();
  const list = () => [...open.values()].filter(keepsAlive).flatMap(describeResource);
  return {
    findLeaks: async () => {
      const deadline = performance.now() + SETTLE_MS;
      while (list().length > 0 && performance.now() < deadline) await delay(POLL_MS, undefined, { ref: false });
      return list();
    },
    end: () => {
      hook.disable();
      open.clear();
    },
  };
}

function keepsAlive({ handle }: Resource): boolean {
  const target = handle.deref();
  // The process's own input and output are opened at their first use, and stay open.
  const isStandardStream = target?.fd !== undefined && target.fd >= 0 && target.fd <= 2;
  return !isStandardStream && target?.hasRef?.() === true;
}

/** The kind and the first place outside the runtime, or nothing when Jest itself opened the resource. */
function describeResource({ kind, origin }: Resource): string[] {
  const places = (origin.stack ?? '')
    .split('\n')
    .slice(1)
    .map((line) => line.trim().replace(/^at /, ''))
    .filter((place) => /:[0-9]+:[0-9]+\)?$/.test(place) && !/node:|leak-check\.ts/.test(place));
  const nearest = places[0];
  if (nearest !== undefined && /node_modules\/(@jest\/|jest-)/.test(nearest)) return [];
  const ours = places.find((place) => !place.includes('node_modules')) ?? nearest;
  return [ours === undefined ? `${kind} (accepted from outside)` : `${kind} opened at ${ours}`];
}
