import type { Int64 } from '../domain/int64.ts';
import type { Queryable } from '../infra/database.ts';

/** Records subscriptions that this service created or listed: deliveries that name them are trusted. */
export async function saveSubscription(tx: Queryable, subscription: { id: Int64; callbackUrl: string }): Promise<void> {
  await tx.query(
    `INSERT INTO subscription (subscription_id, callback_url) VALUES ($1, $2)
     ON CONFLICT (subscription_id) DO UPDATE SET callback_url = excluded.callback_url`,
    [subscription.id, subscription.callbackUrl],
  );
}

export async function forgetSubscription(tx: Queryable, id: Int64): Promise<void> {
  await tx.query('DELETE FROM subscription WHERE subscription_id = $1', [id]);
}

export async function listKnownSubscriptions(database: Queryable): Promise<Int64[]> {
  const rows = await database.query<{ subscription_id: string }>('SELECT subscription_id FROM subscription', []);
  return rows.map((row) => row.subscription_id);
}
