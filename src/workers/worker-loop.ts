import type { Clock } from '../domain/clock.ts';
import { isUnavailable } from '../infra/database-errors.ts';
import type { Logger } from '../infra/logger.ts';
import type { Metrics } from '../infra/metrics.ts';

/** Jobs to run; if there are none, how long to wait before the next claim (undefined: until woken or the next poll). */
export interface Claimed<Job> {
  jobs: readonly Job[];
  waitMs?: number | undefined;
}

export interface WorkerLoopOptions<Job> {
  name: string;
  slots: number;
  /** The longest wait between two claims; notifications only shorten it. */
  pollIntervalMs: number;
  /** @param free how many jobs can be run at once; one of them is enough */
  claim: (free: number) => Promise<Claimed<Job>>;
  run: (job: Job, signal: AbortSignal) => Promise<void>;
  clock: Clock;
  logger: Logger;
  metrics: Metrics;
}

const ERROR_WAIT_MS = 1000;

/**
 * Runs up to `slots` jobs at a time. While slots are free it claims jobs; when there are none it sleeps until it is
 * woken, until the time that the claim named, or until the next poll.
 * States: stopped → running (start) → draining (stop: no new claims) → stopped.
 */
export class WorkerLoop<Job> {
  readonly #options: WorkerLoopOptions<Job>;
  readonly #running = new Set<Promise<void>>();
  #abort = new AbortController();
  #looping: Promise<void> | undefined;
  #stopping = false;
  // Counts wake-ups, so that one that comes during a claim is not lost.
  #wakeUps = 0;
  #rouse: (() => void) | undefined;

  constructor(options: WorkerLoopOptions<Job>) {
    this.#options = options;
  }

  start(): void {
    if (this.#looping) return;
    this.#stopping = false;
    this.#abort = new AbortController();
    this.#options.metrics.workerSlots.set({ worker: this.#options.name }, this.#options.slots);
    this.#looping = this.#loop();
  }

  /** Something may be there to claim. */
  wake(): void {
    this.#wakeUps += 1;
    this.#rouse?.();
  }

  /**
   * Claims nothing more and waits for the running jobs; those that still run after `graceMs` are aborted, and release
   * themselves. Safe before start, and twice.
   */
  async stop(graceMs: number): Promise<void> {
    this.#stopping = true;
    this.wake();
    const { clock } = this.#options;
    const deadline = clock.setTimeout(() => this.#abort.abort(), graceMs);
    await this.#looping;
    await Promise.all(this.#running);
    clock.clearTimeout(deadline);
    this.#looping = undefined;
  }

  async #loop(): Promise<void> {
    while (!this.#stopping) {
      const free = this.#options.slots - this.#running.size;
      if (free <= 0) {
        await Promise.race(this.#running);
        continue;
      }
      const wakeUps = this.#wakeUps;
      const { jobs, waitMs } = await this.#claim(free);
      for (const job of jobs) this.#run(job);
      if (jobs.length === 0 && wakeUps === this.#wakeUps) await this.#sleep(waitMs);
    }
  }

  async #claim(free: number): Promise<Claimed<Job>> {
    try {
      return await this.#options.claim(free);
    } catch (error) {
      const { logger, metrics, name } = this.#options;
      // While the database is unreachable every claim fails; its own alerts say so.
      if (!isUnavailable(error)) metrics.errors.inc({ component: name });
      logger.warn('claim failed', { component: name, error: (error as Error).message, retryInMs: ERROR_WAIT_MS });
      return { jobs: [], waitMs: ERROR_WAIT_MS };
    }
  }

  #run(job: Job): void {
    const { name, metrics, logger } = this.#options;
    const running = this.#options
      .run(job, this.#abort.signal)
      .catch((error: Error) => {
        // One job's unexpected failure must not end the loop.
        metrics.errors.inc({ component: name });
        logger.error('run ended for an unforeseen reason', { component: name, error });
      })
      .finally(() => {
        this.#running.delete(running);
        metrics.workersBusy.set({ worker: name }, this.#running.size);
        this.wake();
      });
    this.#running.add(running);
    metrics.workersBusy.set({ worker: name }, this.#running.size);
  }

  #sleep(waitMs: number | undefined): Promise<void> {
    const { clock, pollIntervalMs } = this.#options;
    return new Promise((resolve) => {
      const timer = clock.setTimeout(
        () => this.#rouse?.(),
        Math.max(1, Math.min(pollIntervalMs, waitMs ?? pollIntervalMs)),
      );
      this.#rouse = () => {
        clock.clearTimeout(timer);
        this.#rouse = undefined;
        resolve();
      };
      if (this.#stopping) this.#rouse();
    });
  }
}
