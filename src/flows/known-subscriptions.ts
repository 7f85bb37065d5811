import type { Int64 } from '../domain/int64.ts';
import type { Database } from '../infra/database.ts';
import type { Logger } from '../infra/logger.ts';
import { listKnownSubscriptions } from '../store/subscriptions.ts';

/** An event names a subscription that this service did not create or list. */
export class UnknownSubscriptionError extends Error {
  override name = 'UnknownSubscriptionError';
  readonly code = 'UNKNOWN_SUBSCRIPTION';
}

/** Knows which subscriptions to trust. */
export interface KnownSubscriptions {
  /** @throws UnknownSubscriptionError; while none is known every event passes, with one warning */
  mustTrust(id: Int64): Promise<void>;
  /** Forget what was read: the set has changed. */
  refresh(): void;
}

const FRESH_MS = 5000;

export function createKnownSubscriptions(database: Database, logger: Logger, now: () => number): KnownSubscriptions {
  let known: Promise<Set<Int64>> | undefined;
  let readAt = 0;
  let warned = false;
  const read = (): Promise<Set<Int64>> => {
    readAt = now();
    known = listKnownSubscriptions(database).then((ids) => new Set(ids));
    // A failed read is not kept.
    known.catch(() => {
      known = undefined;
    });
    return known;
  };
  return {
    refresh: () => {
      known = undefined;
    },
    mustTrust: async (id) => {
      // A clock that was set back makes nothing fresh for as long as it lags.
      let ids = await (known !== undefined && Math.abs(now() - readAt) < FRESH_MS ? known : read());
      if (ids.size > 0 && !ids.has(id) && now() !== readAt) ids = await read(); // it may be brand new
      if (ids.size === 0) {
        if (!warned) {
          warned = true;
          logger.warn(
            'events are accepted from any subscription: none is known. Create or list one (npm run webhook:list)',
            { component: 'webhook' },
          );
        }
        return;
      }
      if (!ids.has(id))
        throw new UnknownSubscriptionError(`Subscription ${id} is not one that this service created or listed.`);
    },
  };
}
