import type { ChangeType } from '../domain/change.ts';
import type { Int64 } from '../domain/int64.ts';
import type { Queryable } from '../infra/database.ts';
import type { DeliveryState } from './delivery-log.ts';

/** At most this many changes and this many deliveries of an activity are read. */
export const MOST_CHANGES = 50;
const MOST_DELIVERIES = 500;

/** A change of an activity, and one delivery of it; its fields are null where the change was sent to no endpoint. */
export interface ToldChangeRow {
  changeId: string;
  type: ChangeType;
  at: Date;
  deliveryId: Int64 | null;
  endpointId: Int64 | null;
  url: string | null;
  state: DeliveryState | null;
  attempts: number | null;
  queuedAt: Date | null;
  settledAt: Date | null;
}

/** The newest stored changes of an activity with their deliveries, newest first. */
export async function listToldChanges(database: Queryable, activityId: Int64): Promise<ToldChangeRow[]> {
  return database.query<ToldChangeRow>(
    `SELECT c.id AS "changeId", c.type, c.at, d.id AS "deliveryId", d.endpoint_id AS "endpointId", e.url, d.state, d.attempts,
       d.created_at AS "queuedAt", d.settled_at AS "settledAt"
     FROM (SELECT * FROM change WHERE activity_id = $1 AND position IS NOT NULL ORDER BY position DESC LIMIT $2) c
     LEFT JOIN (
       (SELECT * FROM delivery WHERE activity_id = $1 ORDER BY id DESC LIMIT $3) d JOIN endpoint e ON e.id = d.endpoint_id
     ) ON d.change_id = c.id
     ORDER BY c.position DESC, d.id DESC`,
    [activityId, MOST_CHANGES, MOST_DELIVERIES],
  );
}
