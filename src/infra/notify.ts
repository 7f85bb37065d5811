import type { Queryable } from './database.ts';

/** The one channel of the service; the payload is a topic, or a topic with a detail: `activity:42`. */
export const CHANNEL = 'activity_sync';

/**
 * What changed. `fetch`, `thumbnail`, `sync`, `polling` and `delivery` also wake the workers of that name, `change` those
 * that make deliveries of changes, `athlete` that of deauthorisations; `budget` wakes all that call the provider.
 */
export const TOPICS = [
  'fetch',
  'thumbnail',
  'budget',
  'job',
  'activity',
  'athlete',
  'sync',
  'polling',
  'change',
  'delivery',
] as const;
export type Topic = (typeof TOPICS)[number];

/**
 * Notifies every process when the caller's transaction commits. Equal notifications of one transaction are sent once.
 * @param detail what it is about, usually an id
 */
export async function notify(tx: Queryable, topic: Topic, detail?: string): Promise<void> {
  await tx.query('SELECT pg_notify($1, $2)', [CHANNEL, detail === undefined ? topic : `${topic}:${detail}`]);
}
