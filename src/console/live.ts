import { effect, signal } from '@preact/signals';
import type { Budget, Stats } from './api/bodies.ts';
import { ask } from './api/client.ts';
import { serviceTime } from './clock.ts';
import { mayLook } from './session.ts';

/** What the service notifies as it happens; see GET /api/admin/events. */
export type LiveEvent = 'jobs' | 'budget' | 'activity' | 'athlete' | 'webhook' | 'sync';
const EVENTS: readonly LiveEvent[] = ['jobs', 'budget', 'activity', 'athlete', 'webhook', 'sync'];

/** Whether the page follows: 'connecting' until the first figures come, and again whenever the stream breaks. */
export const connection = signal<'connecting' | 'live' | 'paused'>('connecting');

/** Since when (service's time) nothing has arrived although the page follows; null while figures arrive. */
export const silentSince = signal<number | null>(null);

/** The newest figures, null until the first ones arrive. */
export const stats = signal<Stats | null>(null);
export const budget = signal<Budget | null>(null);

const RETRY_MS = 3000;
const WATCH_MS = 500;
const SILENT_MS = 4000; // the service sends a beat every two seconds
const listeners = new Set<{ events: readonly LiveEvent[]; hear: () => void }>();
let source: EventSource | undefined;
let heardAt = Date.now();
let retry: ReturnType<typeof setTimeout> | undefined;

/** Calls `hear` whenever one of the events arrives. @returns a function that ends it */
export function onLive(events: readonly LiveEvent[], hear: () => void): () => void {
  const listener = { events, hear };
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Follows while an operator is signed in and has not paused. */
export function startLive(): void {
  effect(() => {
    const wanted = mayLook();
    if (wanted && connection.value !== 'paused') open();
    else close();
  });
  setInterval(watch, WATCH_MS);
}

// An open stream proves nothing: the service may have lost its database.
function watch(): void {
  if (!mayLook() || connection.peek() === 'paused') noteHeard();
  else if (silentSince.peek() === null && Date.now() - heardAt > SILENT_MS)
    silentSince.value = serviceTime() - (Date.now() - heardAt);
}

function noteHeard(): void {
  heardAt = Date.now();
  silentSince.value = null;
}

export function pause(): void {
  connection.value = 'paused';
}

export function resume(): void {
  connection.value = 'connecting';
}

function open(): void {
  if (source) return;
  source = new EventSource('/api/admin/events');
  source.addEventListener('error', lost);
  source.addEventListener('beat', noteLive);
  for (const event of EVENTS) source.addEventListener(event, (message) => hear(event, message.data));
}

// The browser reconnects automatically, unless the service refused: then the session is checked and the stream
// is opened again.
function lost(): void {
  if (connection.peek() === 'paused') return;
  connection.value = 'connecting';
  if (source?.readyState !== EventSource.CLOSED) return;
  close();
  retry = setTimeout(() => {
    ask('GET', '/api/admin/session').then(open, lost);
  }, RETRY_MS);
}

function close(): void {
  clearTimeout(retry);
  source?.close();
  source = undefined;
}

function noteLive(): void {
  connection.value = 'live';
  noteHeard();
}

function hear(event: LiveEvent, data: string): void {
  if (event === 'jobs' || event === 'budget') noteLive(); // the other events say nothing about the database
  if (event === 'jobs') stats.value = JSON.parse(data);
  if (event === 'budget') budget.value = JSON.parse(data);
  for (const listener of [...listeners]) if (listener.events.includes(event)) listener.hear();
}
