import type { Clock } from '../domain/clock.ts';
import { startIdleLines } from '../flows/delivery-lines.ts';
import { dispatchChanges } from '../flows/dispatch-changes.ts';
import { type SendDependencies, sendDelivery } from '../flows/send-delivery.ts';
import { DeadProcessWatch } from '../infra/dead-process-watch.ts';
import type { Logger } from '../infra/logger.ts';
import type { Metrics } from '../infra/metrics.ts';
import { createMinuteReport } from '../infra/minute-report.ts';
import type { NotifyHub } from '../infra/notify-hub.ts';
import type { Presence } from '../infra/presence.ts';
import { SecretBoxError } from '../infra/secret-box.ts';
import { ClaimLostError } from '../queue/claims.ts';
import {
  claimDeliveries,
  type DeliveryRun,
  releaseDelivery,
  rescueDeliveries,
  waitForDelivery,
} from '../queue/delivery-queue.ts';
import { Repeater } from './repeater.ts';
import { type Claimed, WorkerLoop } from './worker-loop.ts';

const COMPONENT = 'delivery';
// NOTIFY wakes it sooner.
const POLL_INTERVAL_MS = 5000;
// A process is dead after two checks.
const CARE_EVERY_MS = 2000;
const IDLE_LINES_EVERY_MS = 60_000;
// More of what is due may wait for its endpoint's calls to end.
const MIN_WAIT_MS = 10;

type ClaimedDelivery = DeliveryRun & { failing: boolean };

/** The delivery worker: makes deliveries of what is new in the feed, and sends them to the application's endpoints. */
export class DeliveryWorker {
  readonly #deps: SendDependencies & { hub: NotifyHub; presence: Presence; logger: Logger; metrics: Metrics };
  readonly #slots: number;
  readonly #loop: WorkerLoop<ClaimedDelivery>;
  readonly #care: Repeater;
  readonly #watch: DeadProcessWatch;
  readonly #reportWrongKey: (run: DeliveryRun) => void;
  #idleLinesAt = Number.NEGATIVE_INFINITY;
  #unsubscribe: (() => void)[] = [];
  #isNews = true;
  #polledAt = Number.NEGATIVE_INFINITY;
  #failing = 0;

  constructor(
    deps: SendDependencies & {
      hub: NotifyHub;
      presence: Presence;
      clock: Clock;
      logger: Logger;
      metrics: Metrics;
      slots: number;
    },
  ) {
    const { clock, logger, metrics } = deps;
    this.#deps = deps;
    this.#slots = deps.slots;
    this.#watch = new DeadProcessWatch(deps);
    this.#loop = new WorkerLoop<ClaimedDelivery>({
      name: COMPONENT,
      slots: deps.slots,
      pollIntervalMs: POLL_INTERVAL_MS,
      claim: (most) => this.#claim(most),
      run: (run, signal) => this.#run(run, signal),
      clock,
      logger,
      metrics,
    });
    this.#reportWrongKey = createMinuteReport(deps.now, ({ deliveryId }, postponed) =>
      logger.error(
        'delivery not signed: no configured key opens the endpoint’s secret; add the former key behind the newest in TOKEN_ENCRYPTION_KEY, or rotate the secret',
        { component: COMPONENT, deliveryId, postponed },
      ),
    );
    this.#care = new Repeater({
      name: 'the rescue of deliveries',
      everyMs: CARE_EVERY_MS,
      run: () => this.#rescue(),
      clock,
      logger,
    });
  }

  start(): void {
    const { hub, logger } = this.#deps;
    logger.info('delivery worker started', { component: COMPONENT, concurrency: this.#slots });
    this.#unsubscribe = [
      hub.on('change', () => {
        this.#isNews = true;
        this.#loop.wake();
      }),
      hub.on('delivery', () => this.#loop.wake()),
    ];
    this.#care.start();
    this.#loop.start();
  }

  async stop(graceMs: number): Promise<void> {
    for (const end of this.#unsubscribe) end();
    await Promise.all([this.#care.stop(), this.#loop.stop(graceMs)]);
  }

  async #claim(most: number): Promise<Claimed<ClaimedDelivery>> {
    const { database, boss, now, presence } = this.#deps;
    if (!presence.isRegistered || presence.processId === undefined) return { jobs: [] };
    if (this.#isNews || now() - this.#polledAt >= POLL_INTERVAL_MS) {
      this.#isNews = false;
      this.#polledAt = now();
      await dispatchChanges({ database, boss });
    }
    // Endpoints that hang must leave room for the others.
    const mostFailing = Math.floor(this.#slots / 2) - this.#failing;
    const jobs = await claimDeliveries(database, boss, presence.processId, most, mostFailing);
    if (jobs.length > 0) return { jobs, waitMs: MIN_WAIT_MS };
    const waitMs = await waitForDelivery(database);
    return { jobs, waitMs: waitMs === undefined ? undefined : Math.max(MIN_WAIT_MS, waitMs) };
  }

  async #run(run: ClaimedDelivery, signal: AbortSignal): Promise<void> {
    const { boss, database, logger, metrics, now } = this.#deps;
    if (run.failing) this.#failing += 1;
    try {
      const sent = await sendDelivery(this.#deps, run, signal);
      if (!sent) return;
      const { delivery, answer, result } = sent;
      metrics.deliveries.inc({ result });
      metrics.deliveryDuration.observe(answer.durationMs / 1000);
      if (result === 'delivered') metrics.deliveredAfter.observe(Math.max(0, now() - delivery.at.getTime()) / 1000);
      else
        logger.warn(result === 'retry' ? 'delivery failed, retrying' : 'delivery exhausted, resend it manually', {
          component: COMPONENT,
          endpointId: delivery.endpointId,
          deliveryId: delivery.id,
          attempt: delivery.attempts + 1,
          status: answer.status,
          error: answer.error,
        });
    } catch (error) {
      if (error instanceof ClaimLostError) return;
      if (error instanceof SecretBoxError) return this.#reportWrongKey(run);
      const { message } = error as Error;
      logger.warn('delivery not completed, it will be sent again', {
        component: COMPONENT,
        deliveryId: run.deliveryId,
        error: message,
      });
      await database
        .transaction((tx) => releaseDelivery(boss, tx, run, message))
        .catch((problem: Error) =>
          logger.warn('delivery not released, pg-boss will reclaim it', {
            component: COMPONENT,
            deliveryId: run.deliveryId,
            error: problem.message,
          }),
        );
    } finally {
      if (run.failing) this.#failing -= 1;
    }
  }

  /** Resumes what died with a process, or lost its job with an athlete. */
  async #rescue(): Promise<void> {
    const { boss, database, logger, now } = this.#deps;
    const released = await rescueDeliveries(database, boss, (ids) => this.#watch.look(ids));
    if (released > 0) {
      logger.warn('deliveries of dead processes rescued', { component: COMPONENT, deliveries: released });
      this.#loop.wake();
    }
    if (now() - this.#idleLinesAt < IDLE_LINES_EVERY_MS) return;
    this.#idleLinesAt = now();
    const started = await startIdleLines(this.#deps);
    if (started > 0) logger.info('idle delivery lines started', { component: COMPONENT, lines: started });
  }
}
