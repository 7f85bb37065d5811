import type { Int64 } from '../domain/int64.ts';
import type { Queryable } from '../infra/database.ts';
import { listKnownSubscriptions } from './subscriptions.ts';
import { LAST_RECEIVED } from './webhook-events.ts';

/** Reads what the database knows about deliveries: the trusted subscriptions, and when the last one came. */
export async function readDeliveries(
  database: Queryable,
): Promise<{ trusted: Int64[]; lastReceivedAt: Date | undefined; athletes: number; unconfirmed: number }> {
  const [row] = await database.query<{ last: Date | null; athletes: number; unconfirmed: number }>(
    `SELECT (${LAST_RECEIVED}) AS last, (SELECT count(*)::int FROM athlete) AS athletes, unconfirmed_deauthorizations() AS unconfirmed`,
    [],
  );
  return {
    trusted: await listKnownSubscriptions(database),
    lastReceivedAt: row?.last ?? undefined,
    athletes: row?.athletes ?? 0,
    unconfirmed: row?.unconfirmed ?? 0,
  };
}
