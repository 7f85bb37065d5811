import type { PgBoss } from 'pg-boss';
import type { Database } from '../infra/database.ts';
import { findHeadsAmong, insertDeliveriesOfChanges } from '../store/delivery-log.ts';
import { startLines } from './delivery-lines.ts';

const CHANGES_AT_ONCE = 500;

/**
 * Makes deliveries of what is new in the feed: the deliveries, the jobs of those at the head of their line, and the
 * endpoints' new positions commit together. Any number of processes may do it at once.
 */
export async function dispatchChanges(deps: { database: Database; boss: PgBoss }): Promise<void> {
  for (let more = true; more; ) {
    more = await deps.database.transaction(async (tx) => {
      const dispatched = await insertDeliveriesOfChanges(tx, CHANGES_AT_ONCE);
      if (dispatched.made.length > 0) await startLines(deps.boss, tx, await findHeadsAmong(tx, dispatched.made));
      return dispatched.more;
    });
  }
}
