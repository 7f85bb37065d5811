import type { Int64 } from '../domain/int64.ts';
import type { Queryable } from '../infra/database.ts';
import { ProviderError } from '../provider/errors.ts';
import { forgetSubscription, saveSubscription } from '../store/subscriptions.ts';
import type { KnownSubscriptions } from './known-subscriptions.ts';
import type { SubscriptionCalls } from './throttled.ts';

/** A subscription as the admin interface shows it. */
export interface Subscription {
  id: Int64;
  callbackUrl: string;
  createdAt: string | null;
  updatedAt: string | null;
}

/** Manages the application's webhook subscription at the provider. Every method throws ProviderError. */
export interface Subscriptions {
  /** The provider validates the callback during the call, so the service must be listening. */
  create(callbackUrl: string, verifyToken: string): Promise<{ id: Int64; callbackUrl: string }>;
  list(): Promise<Subscription[]>;
  /** @returns false when the provider knows no such subscription */
  delete(id: Int64): Promise<boolean>;
}

export function createSubscriptions(
  database: Queryable,
  provider: SubscriptionCalls,
  known: KnownSubscriptions,
): Subscriptions {
  const list = async (): Promise<Subscription[]> => {
    const answers = await provider.listSubscriptions();
    for (const answer of answers)
      await saveSubscription(database, { id: answer.id, callbackUrl: answer.callback_url ?? '' });
    known.refresh();
    return answers.map((answer) => ({
      id: answer.id,
      callbackUrl: answer.callback_url ?? '',
      createdAt: answer.created_at ?? null,
      updatedAt: answer.updated_at ?? null,
    }));
  };
  return {
    create: async (callbackUrl, verifyToken) => {
      const id = await provider.createSubscription({ callbackUrl, verifyToken }).catch(async (error: unknown) => {
        throw (await explainByExisting(error, callbackUrl, list)) ?? error;
      });
      await saveSubscription(database, { id, callbackUrl });
      known.refresh();
      return { id, callbackUrl };
    },
    list,
    delete: async (id) => {
      let existed = true;
      try {
        await provider.deleteSubscription(id);
      } catch (error) {
        if (!(error instanceof ProviderError && error.code === 'NOT_FOUND')) throw error;
        existed = false;
      }
      await forgetSubscription(database, id);
      known.refresh();
      return existed;
    },
  };
}

// The provider allows an application one subscription. Its refusal does not say which one exists, nor is the form of
// its words relied upon, so the subscriptions are looked at.
async function explainByExisting(
  refusal: unknown,
  callbackUrl: string,
  list: Subscriptions['list'],
): Promise<ProviderError | undefined> {
  if (!(refusal instanceof ProviderError && refusal.code === 'REFUSED')) return undefined;
  // The caller needs the refusal; that the list is unavailable too adds nothing.
  const [standing] = await list().catch(() => []);
  if (!standing) return undefined;
  const advice =
    standing.callbackUrl === callbackUrl
      ? 'for this same address: npm run webhook:doctor says whether its deliveries can arrive'
      : `for ${standing.callbackUrl}, and is allowed one: delete it first, with npm run webhook:clean or in the console under Subscriptions`;
  return new ProviderError(
    'REFUSED',
    `The provider refused: ${refusal.providerMessage ?? refusal.message}. The application has subscription ${standing.id} ${advice}.`,
    { status: refusal.status },
  );
}
