import type { Clock } from '../domain/clock.ts';
import type { Logger } from '../infra/logger.ts';

/** Runs one thing at start and then again, `everyMs` after it last ended; never twice at once. */
export class Repeater {
  readonly #options: { name: string; everyMs: number; run: () => Promise<void>; clock: Clock; logger: Logger };
  #timer: unknown;
  #running: Promise<void> | undefined;
  #stopped = true;

  constructor(options: { name: string; everyMs: number; run: () => Promise<void>; clock: Clock; logger: Logger }) {
    this.#options = options;
  }

  start(): void {
    if (!this.#stopped) return;
    this.#stopped = false;
    this.#runNow();
  }

  /** Waits for the current run. Safe before start, and when repeated. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#options.clock.clearTimeout(this.#timer);
    await this.#running;
  }

  #runNow(): void {
    const { name, everyMs, run, clock, logger } = this.#options;
    this.#running = run()
      .catch((error: Error) =>
        logger.warn(`${name} failed, retrying`, {
          component: 'repeater',
          error: error.message,
          retryInMs: everyMs,
        }),
      )
      .then(() => {
        this.#running = undefined;
        if (!this.#stopped) this.#timer = clock.setTimeout(() => this.#runNow(), everyMs);
      });
  }
}
