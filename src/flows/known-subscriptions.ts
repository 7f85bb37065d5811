import { randomUUID } from 'node:crypto';
import type { Int64 } from '../domain/int64.ts';
import type { Database } from '../infra/database.ts';
import type { Logger } from '../infra/logger.ts';
import { holdLease } from '../store/leases.ts';
import { listKnownSubscriptions } from '../store/subscriptions.ts';

/** An event names a subscription that this service did not create or list. */
export class UnknownSubscriptionError extends Error {
  override name = 'UnknownSubscriptionError';
  readonly code = 'UNKNOWN_SUBSCRIPTION';
}

/** No subscription is known yet: the provider's list is being read, and the event will be delivered again. */
export class NoSubscriptionError extends Error {
  override name = 'NoSubscriptionError';
  readonly code = 'NO_SUBSCRIPTION';
}

/** The subscriptions to trust. */
export interface KnownSubscriptions {
  /** @throws UnknownSubscriptionError; NoSubscriptionError while none is known */
  mustTrust(id: Int64): Promise<void>;
  /** Discards what was read: the set has changed. */
  refresh(): void;
}

const FRESH_MS = 5000;
// All replicas together.
const ASK_EVERY_MS = 60_000;

/** @param deps.askProvider lists the provider's subscriptions, which are known from then on */
export function createKnownSubscriptions(deps: {
  database: Database;
  logger: Logger;
  now: () => number;
  askProvider: () => Promise<unknown>;
}): KnownSubscriptions {
  const { database, logger, now } = deps;
  let known: Promise<Set<Int64>> | undefined;
  let readAt = 0;
  const read = (): Promise<Set<Int64>> => {
    readAt = now();
    known = listKnownSubscriptions(database).then((ids) => new Set(ids));
    // A failed read is not cached.
    known.catch(() => {
      known = undefined;
    });
    return known;
  };
  const ask = async (): Promise<void> => {
    // Each attempt is a holder of its own: the lease excludes this process as well.
    if (!(await holdLease(database, 'subscription', randomUUID(), ASK_EVERY_MS))) return;
    await deps.askProvider();
    logger.info('no subscription known, listed the provider’s', { component: 'webhook' });
  };
  return {
    refresh: () => {
      known = undefined;
    },
    mustTrust: async (id) => {
      // After the clock is set back, nothing counts as fresh until it has caught up.
      let ids = await (known !== undefined && Math.abs(now() - readAt) < FRESH_MS ? known : read());
      if (!ids.has(id) && now() !== readAt) ids = await read(); // it may be brand new
      if (ids.has(id)) return;
      if (ids.size > 0)
        throw new UnknownSubscriptionError(`Subscription ${id} is not one that this service created or listed.`);
      ask().catch((error: Error) =>
        logger.warn('no subscription known, listing the provider’s failed', {
          component: 'webhook',
          error: error.message,
        }),
      );
      throw new NoSubscriptionError(
        'No subscription is known yet; the provider’s list is being read. Deliver it again.',
      );
    },
  };
}
