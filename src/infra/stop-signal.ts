import { isRunByNpm } from './config.ts';

/** Tells when the process was asked to stop. */
export interface StopSignal {
  readonly asked: boolean;
  /** Resolves when it is asked to. */
  readonly untilAsked: Promise<void>;
}

// npm passes a Ctrl-C on that the terminal has told the process already.
const SAME_WISH_MS = 500;
const PARENT_CHECK_MS = 500;

/**
 * Hears SIGINT, SIGTERM and SIGHUP (the terminal was closed) from now on, and under npm the end of npm, which cannot
 * pass on the signal that kills it. One that comes again a while after the first ends the process at once.
 * @param onAsked hears the first one
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
    // The terminal is gone: what cannot be written must not end the stop.
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
