import type { Clock } from '../domain/clock.ts';
import { type MadeThumbnail, makeThumbnail, type ThumbnailDependencies } from '../flows/make-thumbnail.ts';
import type { Config } from '../infra/config.ts';
import { DeadProcessWatch } from '../infra/dead-process-watch.ts';
import type { Logger } from '../infra/logger.ts';
import type { Metrics } from '../infra/metrics.ts';
import type { NotifyHub } from '../infra/notify-hub.ts';
import type { Presence } from '../infra/presence.ts';
import { ClaimLostError } from '../queue/claims.ts';
import { claimThumbnail, failThumbnail, rescueThumbnails, type ThumbnailRun } from '../queue/thumbnail-queue.ts';
import { Repeater } from './repeater.ts';
import { type Claimed, WorkerLoop } from './worker-loop.ts';

const COMPONENT = 'thumbnail';
// NOTIFY wakes it sooner.
const POLL_INTERVAL_MS = 5000;
// Another replica's claim may hold a due job.
const MIN_WAIT_MS = 25;
const RESCUE_MS = 2000;
const WARN_EVERY_MS = 600_000;
const SAID: Record<MadeThumbnail['result'], string> = {
  rendered: 'thumbnail rendered',
  withoutMap: 'thumbnail rendered without its map',
  superseded: 'thumbnail superseded',
};

/** The thumbnail worker: draws one picture at a time. */
export class ThumbnailWorker {
  readonly #deps: ThumbnailDependencies & {
    clock: Clock;
    config: Config;
    hub: NotifyHub;
    presence: Presence;
    logger: Logger;
    metrics: Metrics;
  };
  readonly #loop: WorkerLoop<ThumbnailRun>;
  readonly #watch: DeadProcessWatch;
  readonly #rescue: Repeater;
  #unsubscribe: (() => void) | undefined;
  #warnedAt = Number.NEGATIVE_INFINITY;
  // Pictures that lack tiles, since the last warning.
  #incomplete = 0;

  constructor(
    deps: ThumbnailDependencies & {
      clock: Clock;
      config: Config;
      hub: NotifyHub;
      presence: Presence;
      logger: Logger;
      metrics: Metrics;
    },
  ) {
    this.#deps = deps;
    this.#watch = new DeadProcessWatch(deps);
    this.#rescue = new Repeater({
      ...deps,
      name: 'thumbnail rescue',
      everyMs: RESCUE_MS,
      run: () => this.#rescueDead(),
    });
    this.#loop = new WorkerLoop<ThumbnailRun>({
      name: COMPONENT,
      slots: 1,
      pollIntervalMs: POLL_INTERVAL_MS,
      claim: () => this.#claim(),
      run: (run, signal) => this.#run(run, signal),
      clock: deps.clock,
      logger: deps.logger,
      metrics: deps.metrics,
    });
  }

  async #claim(): Promise<Claimed<ThumbnailRun>> {
    const { database, boss, presence } = this.#deps;
    if (!presence.isRegistered || presence.processId === undefined) return { jobs: [] };
    const claim = await claimThumbnail(database, boss, presence.processId);
    if ('run' in claim) return { jobs: [claim.run] };
    return { jobs: [], waitMs: claim.waitMs === undefined ? undefined : Math.max(MIN_WAIT_MS, claim.waitMs) };
  }

  async #rescueDead(): Promise<void> {
    const { database, boss, logger } = this.#deps;
    const rescued = await rescueThumbnails(database, boss, (ids) => this.#watch.look(ids));
    if (rescued > 0) logger.warn('thumbnails of dead workers reclaimed', { component: COMPONENT, jobs: rescued });
  }

  start(): void {
    const { config, hub, logger, map } = this.#deps;
    logger.info('thumbnail worker started', {
      component: COMPONENT,
      size: config.THUMBNAIL_SIZE,
      debug: config.THUMBNAIL_DEBUG,
      mapSource: map?.host ?? 'none',
    });
    this.#unsubscribe = hub.on('thumbnail', () => this.#loop.wake());
    this.#rescue.start();
    this.#loop.start();
  }

  async stop(graceMs: number): Promise<void> {
    this.#unsubscribe?.();
    await this.#rescue.stop();
    await this.#loop.stop(graceMs);
  }

  async #run(run: ThumbnailRun, signal: AbortSignal): Promise<void> {
    const { boss, database, logger, metrics } = this.#deps;
    const startedAt = performance.now();
    const fields = { component: COMPONENT, activityId: run.activityId };
    try {
      const { result, mapProblem } = await makeThumbnail(this.#deps, run, signal);
      const ms = Math.round(performance.now() - startedAt);
      metrics.thumbnails.inc({ result });
      metrics.thumbnailDuration.observe(ms / 1000);
      logger.info(SAID[result], { ...fields, ms });
      if (mapProblem !== undefined) this.#warnOfMap(mapProblem);
    } catch (error) {
      if (error instanceof ClaimLostError) {
        metrics.thumbnails.inc({ result: 'superseded' });
        return;
      }
      const { message } = error as Error;
      metrics.thumbnails.inc({ result: 'failed' });
      logger.warn('thumbnail failed, retrying', { ...fields, error: message });
      await database
        .transaction((tx) => failThumbnail(boss, tx, run, message))
        .catch((problem: Error) =>
          logger.warn('failed thumbnail not released, pg-boss will reclaim it', {
            ...fields,
            error: problem.message,
          }),
        );
    }
  }

  /** At most one line in ten minutes, however many pictures there are. */
  #warnOfMap(problem: string): void {
    this.#incomplete += 1;
    if (performance.now() - this.#warnedAt < WARN_EVERY_MS) return;
    this.#deps.logger.warn('thumbnails lack map tiles', {
      component: COMPONENT,
      error: problem,
      pictures: this.#incomplete,
    });
    this.#warnedAt = performance.now();
    this.#incomplete = 0;
  }
}
