import { setImmediate } from 'node:timers/promises';
import type { Clock } from '../domain/clock.ts';
import { isDatabaseAway } from '../infra/database-errors.ts';
import type { Logger } from '../infra/logger.ts';
import type { Metrics } from '../infra/metrics.ts';

/** Jobs to run; where fewer than asked for, how long to wait before asking again (undefined: until woken or the next poll). */
export interface Claimed<Job> {
  jobs: Job[];
  waitMs: number | undefined;
}

export interface WorkerLoopOptions<Job> {
  name: string;
  slots: number;
  /** The longest wait between two looks; notifications only shorten it. */
  pollIntervalMs: number;
  /** @param most how many jobs can be run at once */
  claim: (most: number) => Promise<Claimed<Job>>;
  run: (job: Job, signal: AbortSignal) => Promise<void>;
  clock: Clock;
  logger: Logger;
  metrics: Metrics;
}

const ERROR_WAIT_MS = 1000;

/**
 * Runs up to `slots` jobs at a time. As soon as slots are free it asks for jobs to fill them; when there
 * are none it sleeps until it is woken, until the time that the claim named, or until the next poll.
 * States: stopped → running (start) → draining (stop: no new claims) → stopped.
 */
export class WorkerLoop<Job> {
  readonly #options: WorkerLoopOptions<Job>;
  readonly #running = new Set<Promise<void>>();
  #abort = new AbortController();
  #looping: Promise<void> | undefined;
  #stopping = false;
  // Counts wake-ups, so that one that comes while a claim is under way is not lost.
  #wakeUps = 0;
  // Whether the last look left something to claim.
  #more = false;
  #rouse: (() => void) | undefined;

  constructor(options: WorkerLoopOptions<Job>) {
    this.#options = options;
  }

  get busy(): number {
    return this.#running.size;
  }

  start(): void {
    if (this.#looping) return;
    this.#stopping = false;
    this.#abort = new AbortController();
    this.#options.metrics.workerSlots.set({ worker: this.#options.name }, this.#options.slots);
    this.#looping = this.#loop();
  }

  /**
   * How many jobs may be claimed to follow ones that are about to end, in the same trip to the database:
   * as many, unless the last look found that nothing more can be claimed.
   */
  successors(ending: number): number {
    return this.#stopping || !this.#more ? 0 : ending;
  }

  /** Runs jobs that were claimed as successors. */
  follow(jobs: readonly Job[], asked: number): void {
    this.#more = jobs.length === asked;
    for (const job of jobs) this.#run(job);
  }

  /** Something may be there to claim. */
  wake(): void {
    this.#wakeUps += 1;
    this.#rouse?.();
  }

  /**
   * Claims nothing more and waits for the running jobs; those that still run after `graceMs` are
   * aborted, and put themselves back. Safe before start, and twice.
   */
  async stop(graceMs: number): Promise<void> {
    this.#stopping = true;
    this.wake();
    const { clock } = this.#options;
    const deadline = clock.setTimeout(() => this.#abort.abort(), graceMs);
    await this.#looping;
    // A job that ends now may be followed by one that was claimed before the stop.
    while (this.#running.size > 0) await Promise.all(this.#running);
    clock.clearTimeout(deadline);
    this.#looping = undefined;
  }

  async #loop(): Promise<void> {
    while (!this.#stopping) {
      const free = this.#options.slots - this.#running.size;
      if (free <= 0) {
        await Promise.race(this.#running);
        await setImmediate(); // jobs that were stored together end together, and are followed together
        continue;
      }
      const wakeUps = this.#wakeUps;
      const { jobs, waitMs } = await this.#claim(free);
      this.follow(jobs, free);
      if (jobs.length < free && wakeUps === this.#wakeUps) await this.#sleep(waitMs);
    }
  }

  async #claim(most: number): Promise<Claimed<Job>> {
    try {
      return await this.#options.claim(most);
    } catch (error) {
      const { logger, metrics, name } = this.#options;
      // While the database is away every look fails; its own alerts speak of that.
      if (!isDatabaseAway(error)) metrics.errors.inc({ component: name });
      logger.warn('cannot look for jobs; trying again', {
        component: name,
        error: (error as Error).message,
        retryInMs: ERROR_WAIT_MS,
      });
      return { jobs: [], waitMs: ERROR_WAIT_MS };
    }
  }

  #run(job: Job): void {
    const { name, metrics, logger } = this.#options;
    const running = this.#options
      .run(job, this.#abort.signal)
      .catch((error: Error) => {
        // One job's unforeseen end must not end the loop.
        metrics.errors.inc({ component: name });
        logger.error('a run ended for an unforeseen reason', { component: name, error });
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
