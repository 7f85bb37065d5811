import { isRunByNpm } from './config.ts';

/** Says when the process was asked to stop. */
export interface StopSignal {
  readonly asked: boolean;
  /** Resolves when it is asked to. */
  readonly untilAsked: Promise<void>;
}

// npm forwards a Ctrl-C that the terminal has already sent to the process.
const SAME_WISH_MS = 500;
const PARENT_CHECK_MS = 500;

/**
 * Handles SIGINT, SIGTERM and SIGHUP (the terminal was closed) from now on, and under npm the end of npm, which cannot
 * forward the signal that kills it. A second one, a while after the first, ends the process at once.
 * @param onAsked is called for the first one
 */
export function hearStopSignal(onAsked: () => void = () => undefined): StopSignal {
  const { promise: untilAsked, resolve } = Promise.withResolvers<void>();
  let askedAt: number | undefined;
  const ask = () => {
    if (askedAt !== undefined) {
      if (performance.now() - askedAt > SAME_WISH_MS) process.exit(1);
      return;
    }
    askedAt = performance.now();
    onAsked();
    resolve();
  };
  process.on('SIGINT', ask);
  process.on('SIGTERM', ask);
  const askUnread = () => {
    // The terminal was closed: a failed write must not interrupt the shutdown.
    for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);
    ask();
  };
  process.on('SIGHUP', askUnread);
  const parent = process.ppid;
  if (isRunByNpm()) {
    const check = setInterval(() => {
      if (process.ppid === parent) return;
      clearInterval(check);
      askUnread();
    }, PARENT_CHECK_MS);
    check.unref();
  }
  return {
    get asked() {
      return askedAt !== undefined;
    },
    untilAsked,
  };
}
