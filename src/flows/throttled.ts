import type { Logger } from '../infra/logger.ts';
import type { Metrics } from '../infra/metrics.ts';
import type { Provider } from '../provider/client.ts';
import { ProviderError } from '../provider/errors.ts';
import type { Budget } from '../queue/budget.ts';

export interface ThrottledDependencies {
  budget: Budget;
  logger: Logger;
  metrics: Metrics;
}

/**
 * Reacts to a 429: every replica waits, and the capacity is halved for a while.
 * @param why is shown to every operator during the pause; it must not name an athlete's activity
 * @returns until when (database time)
 */
export async function stopForThrottle(deps: ThrottledDependencies, error: ProviderError, why: string): Promise<Date> {
  const until = await deps.budget.block(error.retryAfterMs, why);
  deps.metrics.throttled.inc();
  deps.logger.warn('throttled by the provider, every replica waits', {
    component: 'budget',
    until: until.toISOString(),
  });
  return until;
}

/** Calls about subscriptions: too few for the budget to count, but a 429 to one of them applies to all. */
export type SubscriptionCalls = Pick<Provider, 'createSubscription' | 'listSubscriptions' | 'deleteSubscription'>;

export function stopsForThrottle(provider: SubscriptionCalls, deps: ThrottledDependencies): SubscriptionCalls {
  const heeding = <T>(call: Promise<T>): Promise<T> =>
    call.catch(async (error: unknown) => {
      if (error instanceof ProviderError && error.code === 'THROTTLED')
        await stopForThrottle(deps, error, error.message);
      throw error;
    });
  return {
    createSubscription: (subscription) => heeding(provider.createSubscription(subscription)),
    listSubscriptions: () => heeding(provider.listSubscriptions()),
    deleteSubscription: (id) => heeding(provider.deleteSubscription(id)),
  };
}
