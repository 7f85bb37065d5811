import type { Response } from 'express';
import type { ChangeType } from '../domain/change.ts';
import type { Clock } from '../domain/clock.ts';
import type { Int64 } from '../domain/int64.ts';
import type { Database } from '../infra/database.ts';
import type { Logger } from '../infra/logger.ts';
import type { NotifyHub } from '../infra/notify-hub.ts';
import { type ChangePage, readChanges } from '../store/changes.ts';
import { Problem } from './problem.ts';
import { createStreamSlots, STREAM_LIFETIME_MS } from './stream-slots.ts';

export interface FeedOptions {
  after: string | undefined;
  limit: number;
  types?: readonly ChangeType[] | undefined;
  athleteId?: Int64 | undefined;
}

/** The feed of changes for waiting clients. */
export interface ChangeFeed {
  /**
   * Reads a page; an empty one is waited for.
   * @param waitMs for how long; 0 answers at once
   * @throws CursorExpiredError, CursorUnknownError
   */
  read(options: FeedOptions, waitMs: number, response: Response): Promise<ChangePage>;
  /**
   * Sends what is there, and then every change as it comes, as server-sent events, until the client leaves, or for an hour.
   * @param credential the client's token or session
   * @throws CursorExpiredError, CursorUnknownError, Problem 503 when there are too many streams; nothing is sent then
   */
  stream(options: FeedOptions, credential: string, response: Response): Promise<undefined>;
  /** Ends every stream and every wait. */
  close(): void;
}

const HEARTBEAT_MS = 15_000;
// A notification may be missed: a waiting request also polls.
const LOOK_MS = 5000;
const RETRY_MS = 2000;

export function createChangeFeed(deps: {
  database: Database;
  hub: NotifyHub;
  clock: Clock;
  logger: Logger;
}): ChangeFeed {
  const { database, hub, clock, logger } = deps;
  const closing = new AbortController();
  const slots = createStreamSlots();

  /** Resolves at the next change, after `ms`, or when the client is gone; `arm` it before looking. */
  const arm = (response: Response) => {
    let settle: () => void = () => undefined;
    const woken = new Promise<void>((resolve) => {
      settle = resolve;
    });
    const unsubscribe = hub.on('change', settle);
    response.once('close', settle);
    closing.signal.addEventListener('abort', settle);
    return {
      wait: async (ms: number): Promise<void> => {
        const timer = clock.setTimeout(settle, ms);
        await woken;
        clock.clearTimeout(timer);
      },
      disarm: () => {
        unsubscribe();
        response.off('close', settle);
        closing.signal.removeEventListener('abort', settle);
      },
    };
  };
  const isOver = (response: Response) => response.closed || closing.signal.aborted;

  const follow = async (options: FeedOptions, first: ChangePage, response: Response): Promise<void> => {
    const heartbeat = clock.setInterval(() => response.write(': still here\n\n'), HEARTBEAT_MS);
    const lifetime = clock.setTimeout(() => response.destroy(), STREAM_LIFETIME_MS);
    try {
      for (let page = first; !isOver(response); ) {
        for (const change of page.changes)
          response.write(`id: ${change.cursor}\nevent: ${change.type}\ndata: ${JSON.stringify(change)}\n\n`);
        if (response.writableNeedDrain) await drained(response, closing.signal);
        const alarm = arm(response);
        try {
          const after = page.nextCursor;
          page = await readChanges(database, { ...options, after });
          if (page.changes.length === 0 && !isOver(response)) await alarm.wait(LOOK_MS);
        } finally {
          alarm.disarm();
        }
      }
    } finally {
      clock.clearInterval(heartbeat);
      clock.clearTimeout(lifetime);
    }
  };

  return {
    read: async (options, waitMs, response) => {
      const deadline = clock.now() + waitMs;
      for (let after = options.after; ; ) {
        const alarm = arm(response);
        try {
          const page = await readChanges(database, { ...options, after });
          const leftMs = deadline - clock.now();
          if (page.changes.length > 0 || leftMs <= 0 || isOver(response)) return page;
          after = page.nextCursor;
          await alarm.wait(Math.min(LOOK_MS, leftMs));
        } finally {
          alarm.disarm();
        }
      }
    },
    stream: async (options, credential, response) => {
      const free = slots.take(credential);
      if (!free)
        throw new Problem(
          'unavailable',
          'Too many streams are open in this process, or for this token or session. Close some, or try again shortly.',
          { headers: { 'Retry-After': '30' } },
        );
      const first = await readChanges(database, options).catch((error: unknown) => {
        free();
        throw error;
      });
      response.status(200).set({ 'Content-Type': 'text/event-stream', 'X-Accel-Buffering': 'no' });
      response.flushHeaders();
      response.write(`retry: ${RETRY_MS}\n\n`);
      follow(options, first, response)
        .catch((error: Error) =>
          logger.warn('change stream ended, its client resumes it', { component: 'feed', error: error.message }),
        )
        .finally(() => {
          free();
          response.end();
        });
      return undefined;
    },
    close: () => closing.abort(),
  };
}

function drained(response: Response, closing: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      response.off('drain', done).off('close', done);
      closing.removeEventListener('abort', done);
      resolve();
    };
    response.once('drain', done).once('close', done);
    closing.addEventListener('abort', done);
  });
}
