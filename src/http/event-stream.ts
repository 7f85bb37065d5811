import type { Response } from 'express';
import type { Clock } from '../domain/clock.ts';
import type { Logger } from '../infra/logger.ts';
import type { Topic } from '../infra/notify.ts';
import type { NotifyHub } from '../infra/notify-hub.ts';
import { createStreamSlots, STREAM_LIFETIME_MS } from './stream-slots.ts';

/** The events that viewers get, in the order in which they are sent. */
export const LIVE_EVENTS = ['jobs', 'budget', 'activity', 'athlete', 'webhook', 'sync'] as const;
export type LiveEvent = (typeof LIVE_EVENTS)[number];

/** What is shown live: the figures are read once for all viewers, whatever their number. */
export interface LiveFigures {
  jobs: () => Promise<unknown>;
  budget: () => Promise<unknown>;
}

/** Sends server-sent events to browsers. */
export interface EventStream {
  /**
   * Adds a viewer, who first gets the whole state.
   * @param credential by which the viewer came: a token or a session, each of which has its share
   * @returns false when there are too many; the admin token always gets one
   */
  add(response: Response, credential: string): boolean;
  readonly viewers: number;
  /** Ends every stream. */
  close(): void;
}

const QUIET_MS = 250; // at most four rounds a second
const LOOK_MS = 2000; // figures also change without a notification: a job is claimed, a window rolls over
const HEARTBEAT_MS = 15_000;
const RETRY_MS = 2000;
const ALWAYS_SERVED = 'admin';
const MAX_BACKLOG_BYTES = 1024 * 1024;
const MAX_IDS = 100;

// Which events each database notification triggers. An accepted delivery wakes the fetch worker.
const NEWS = {
  fetch: ['jobs', 'webhook'],
  job: ['jobs', 'webhook'],
  thumbnail: ['jobs', 'webhook'],
  activity: ['activity'],
  athlete: ['athlete'],
  budget: ['budget'],
  sync: ['sync'],
} satisfies Partial<Record<Topic, readonly LiveEvent[]>>;

/**
 * Forwards notifications to viewers, batched so that a viewer gets at most four rounds a second. All
 * viewers share the process's one LISTEN connection and one reading of the figures; while there is no
 * viewer nothing is read. `jobs` carries the statistics, `budget` the budget, `activity` the ids of
 * changed activities (null: any); `athlete`, `webhook` and `sync` only say that something changed. `beat` comes
 * every two seconds, as long as the figures can be read.
 */
export function createEventStream(deps: {
  hub: NotifyHub;
  clock: Clock;
  logger: Logger;
  figures: LiveFigures;
}): EventStream {
  const { hub, clock, logger, figures } = deps;
  const viewers = new Map<Response, () => void>();
  const slots = createStreamSlots(ALWAYS_SERVED);
  const news = new Set<LiveEvent>();
  const sent = new Map<LiveEvent, string>();
  let changed: Set<string> | 'any' = new Set();
  let lastId = clock.now();
  let round: unknown;
  let look: unknown;
  let heartbeat: unknown;

  const unsubscribe = (Object.keys(NEWS) as (keyof typeof NEWS)[]).map((topic) =>
    hub.on(topic, (detail) => {
      if (viewers.size === 0) return;
      if (topic === 'activity') noteActivity(detail);
      for (const event of NEWS[topic]) news.add(event);
      round ??= clock.setTimeout(sendNews, QUIET_MS);
    }),
  );

  // After a lost LISTEN connection the hub names no activity: any may have changed.
  const noteActivity = (id: string): void => {
    if (id === '' || changed === 'any' || changed.size >= MAX_IDS) changed = 'any';
    else changed.add(id);
  };

  const sendNews = (): void => {
    const events = LIVE_EVENTS.filter((event) => news.has(event));
    news.clear();
    const ids = changed === 'any' ? null : [...changed];
    changed = new Set();
    send('all', events, ids, true)
      .catch(warn)
      .finally(() => {
        round = news.size > 0 && viewers.size > 0 ? clock.setTimeout(sendNews, QUIET_MS) : undefined;
      });
  };

  const send = async (
    to: 'all' | Response,
    events: readonly LiveEvent[],
    ids: readonly string[] | null,
    evenIfSame: boolean,
  ): Promise<void> => {
    for (const event of events) {
      const data = await dataOf(event, ids);
      if (!evenIfSame && sent.get(event) === data) continue;
      if (to === 'all') sent.set(event, data);
      lastId += 1;
      for (const viewer of to === 'all' ? viewers.keys() : [to])
        write(viewer, `id: ${lastId}\nevent: ${event}\ndata: ${data}\n\n`);
    }
  };

  const dataOf = async (event: LiveEvent, ids: readonly string[] | null): Promise<string> => {
    if (event === 'jobs' || event === 'budget') return JSON.stringify(await figures[event]());
    return JSON.stringify(event === 'activity' ? { ids } : {});
  };

  // A viewer that does not read is disconnected; its browser reconnects.
  const write = (viewer: Response, text: string): void => {
    if (!viewers.has(viewer)) return;
    if (viewer.writableLength > MAX_BACKLOG_BYTES) remove(viewer);
    else viewer.write(text);
  };

  const remove = (viewer: Response): void => {
    const forget = viewers.get(viewer);
    if (!forget) return;
    viewers.delete(viewer);
    forget();
    viewer.end();
    if (viewers.size === 0) stopTimers();
  };

  // Only after the figures were read: without a beat a viewer knows that its figures are old.
  const beat = (): void => {
    for (const viewer of viewers.keys()) write(viewer, 'event: beat\ndata: {}\n\n');
  };

  const warn = (error: Error): void => {
    logger.warn('live figures not read, trying again', {
      component: 'events',
      error: error.message,
    });
  };

  const startTimers = (): void => {
    look = clock.setInterval(() => void send('all', ['jobs', 'budget'], null, false).then(beat).catch(warn), LOOK_MS);
    heartbeat = clock.setInterval(() => {
      for (const viewer of viewers.keys()) write(viewer, ': still here\n\n');
    }, HEARTBEAT_MS);
  };

  const stopTimers = (): void => {
    clock.clearInterval(look);
    clock.clearInterval(heartbeat);
    clock.clearTimeout(round);
    round = undefined;
    news.clear();
  };

  return {
    get viewers() {
      return viewers.size;
    },
    add: (response, credential) => {
      const free = slots.take(credential);
      if (!free) return false;
      if (viewers.size === 0) startTimers();
      response.status(200).set({ 'Content-Type': 'text/event-stream', 'X-Accel-Buffering': 'no' });
      response.flushHeaders();
      response.write(`retry: ${RETRY_MS}\n\n`);
      const lifetime = clock.setTimeout(() => remove(response), STREAM_LIFETIME_MS);
      viewers.set(response, () => {
        clock.clearTimeout(lifetime);
        free();
      });
      response.once('close', () => remove(response));
      // A viewer that connects, for the first time or again, may have missed anything.
      send(response, LIVE_EVENTS, null, true).catch(warn);
      return true;
    },
    close: () => {
      for (const end of unsubscribe) end();
      for (const viewer of [...viewers.keys()]) remove(viewer);
      stopTimers();
    },
  };
}
