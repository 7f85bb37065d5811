import type { Int64 } from '../domain/int64.ts';
import type { Queryable } from '../infra/database.ts';
import type { AttemptResult } from './delivery-log.ts';
import { ENDPOINT_SETTINGS, type EndpointRow } from './endpoints.ts';

/** An endpoint's figures cover its newest attempts: at most this many, and at most this many hours old. */
export const FIGURES_OF = { attempts: 1000, hours: 24 } as const;
/** The count of waiting deliveries stops here. */
export const MOST_WAITING = 1000;

/** An endpoint with its figures. */
export interface WatchedEndpointRow extends EndpointRow {
  /** Set while deliveries are also signed with the former secret. */
  formerUntil: Date | null;
  /** Since when the oldest delivery has been waiting. */
  waitingSince: Date | null;
  /** Attempts within the bounds of FIGURES_OF, and how many of them succeeded. */
  attempts: number;
  delivered: number;
  p50Ms: number | null;
  p95Ms: number | null;
  /** The newest attempt that failed, however long ago. */
  failedAt: Date | null;
  failedStatus: number | null;
  failedError: string | null;
  failedResult: AttemptResult | null;
}

/** Endpoints with their figures, in order of their ids. @param options.afterId the id of the last endpoint on the previous page */
export async function listWatchedEndpoints(
  database: Queryable,
  options: { afterId?: Int64 | undefined; limit: number },
): Promise<WatchedEndpointRow[]> {
  return database.query<WatchedEndpointRow>(
    watched('SELECT * FROM endpoint WHERE id > coalesce($1::bigint, 0) ORDER BY id LIMIT $2'),
    [options.afterId ?? null, options.limit],
  );
}

export async function findWatchedEndpoint(database: Queryable, id: Int64): Promise<WatchedEndpointRow | undefined> {
  return (await database.query<WatchedEndpointRow>(watched('SELECT * FROM endpoint WHERE id = $1'), [id]))[0];
}

// Each part walks an index for a bounded number of rows, however long the log is: in the order of a time, since for one
// by id PostgreSQL may walk the primary key past the rows of all other endpoints. BETWEEN keeps it from that as well.
function watched(endpoints: string): string {
  return `
    SELECT ${ENDPOINT_SETTINGS}, CASE WHEN former_until > sync_now() THEN former_until END AS "formerUntil",
      (SELECT count(*)::int FROM (SELECT FROM delivery d WHERE d.endpoint_id = endpoint.id AND d.state = 'waiting'
       ORDER BY d.created_at LIMIT ${MOST_WAITING}) w) AS waiting,
      (SELECT min(d.created_at) FROM delivery d WHERE d.endpoint_id = endpoint.id AND d.state = 'waiting') AS "waitingSince",
      recent.*, failed.*
    FROM (${endpoints}) endpoint
    CROSS JOIN LATERAL (
      SELECT count(*)::int AS attempts, (count(*) FILTER (WHERE result = 'delivered'))::int AS delivered,
        percentile_disc(0.5) WITHIN GROUP (ORDER BY duration_ms) AS "p50Ms", percentile_disc(0.95) WITHIN GROUP (ORDER BY duration_ms) AS "p95Ms"
      FROM (SELECT result, duration_ms FROM delivery_attempt WHERE endpoint_id = endpoint.id AND at > sync_now() - interval '${FIGURES_OF.hours} hours'
            ORDER BY at DESC LIMIT ${FIGURES_OF.attempts}) newest
    ) recent
    LEFT JOIN LATERAL (
      SELECT at AS "failedAt", status AS "failedStatus", error AS "failedError", result AS "failedResult"
      FROM delivery_attempt WHERE endpoint_id BETWEEN endpoint.id AND endpoint.id AND result <> 'delivered'
      ORDER BY endpoint_id, id DESC LIMIT 1
    ) failed ON true
    ORDER BY id`;
}
