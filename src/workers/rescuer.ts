import type { PgBoss } from 'pg-boss';
import type { Clock } from '../domain/clock.ts';
import type { Config } from '../infra/config.ts';
import type { Database } from '../infra/database.ts';
import { DeadProcessWatch } from '../infra/dead-process-watch.ts';
import type { Logger } from '../infra/logger.ts';
import type { Metrics } from '../infra/metrics.ts';
import type { Presence } from '../infra/presence.ts';
import type { Completer } from '../queue/completer.ts';
import { createRescueRuns, endExpiredRuns, removeOrphanedClaims, wakeForgottenLanes } from '../queue/rescue.ts';
import { Repeater } from './repeater.ts';

const COMPONENT = 'rescue';
// Two checks declare a worker dead: its jobs are pending again within five seconds.
const RESCUE_MS = 2000;
const LANE_CHECK_MS = 60_000;
const EXPIRY_CHECK_MS = 3_600_000;

/** Finds fetch jobs whose worker died, went stale or never received its claim, and forgotten jobs. */
export class Rescuer {
  readonly #repeaters: Repeater[];

  constructor(deps: {
    database: Database;
    boss: PgBoss;
    completer: Completer;
    presence: Presence;
    inHand: () => ReadonlySet<string>;
    holdMs: number;
    config: Config;
    clock: Clock;
    logger: Logger;
    metrics: Metrics;
  }) {
    const { database, boss, presence, config, clock, logger, metrics } = deps;
    const watch = new DeadProcessWatch(deps);
    const rescueRuns = createRescueRuns({
      ...deps,
      staleAfterMs: config.FETCH_STALE_AFTER_MS,
      processId: () => presence.processId,
      findDead: (ids) => watch.look(ids),
    });
    const rescue = async () => {
      const rescued = await rescueRuns();
      const reclaimed = rescued.dead + rescued.stale;
      if (reclaimed + rescued.lost === 0) return;
      metrics.staleReclaims.inc(reclaimed);
      logger.warn('jobs rescued', { component: COMPONENT, ...rescued });
    };
    const checkLanes = async () => {
      const woken = await wakeForgottenLanes(database, deps.holdMs);
      if (woken > 0) logger.warn('forgotten lanes woken', { component: COMPONENT, lanes: woken });
    };
    const endExpired = async () => {
      await removeOrphanedClaims(database);
      const ended = await endExpiredRuns(database, boss);
      if (ended > 0) logger.warn('jobs that pg-boss gave up were ended', { component: COMPONENT, jobs: ended });
    };
    const everyMs = Math.max(250, Math.min(RESCUE_MS, config.FETCH_STALE_AFTER_MS / 4));
    this.#repeaters = [
      new Repeater({ name: 'rescue', everyMs, run: rescue, clock, logger }),
      new Repeater({ name: 'lane check', everyMs: LANE_CHECK_MS, run: checkLanes, clock, logger }),
      new Repeater({ name: 'expiry check', everyMs: EXPIRY_CHECK_MS, run: endExpired, clock, logger }),
    ];
  }

  start(): void {
    for (const repeater of this.#repeaters) repeater.start();
  }

  async stop(): Promise<void> {
    await Promise.all(this.#repeaters.map((repeater) => repeater.stop()));
  }
}
