import type { DeliveredType } from '../domain/change.ts';
import type { Int64 } from '../domain/int64.ts';
import type { Queryable } from '../infra/database.ts';

/** Why nothing is sent to an endpoint: it answered 410, failed for days, or the application disabled it. */
export const DISABLED_REASONS = ['gone', 'failing', 'request'] as const;
export type DisabledReason = (typeof DISABLED_REASONS)[number];

/** What is sent to an endpoint, and where. */
export interface EndpointSettings {
  url: string;
  /** null: every type. */
  types: DeliveredType[] | null;
  /** null: every athlete. */
  athleteIds: Int64[] | null;
  description: string;
}

/** The changes to make; undefined fields stay. */
export type EndpointChange = { [K in keyof EndpointSettings]?: EndpointSettings[K] | undefined };

export interface EndpointRow extends EndpointSettings {
  id: Int64;
  createdAt: Date;
  succeededAt: Date | null;
  /** The first failure since the last success. */
  failingSince: Date | null;
  disabledAt: Date | null;
  disabledReason: DisabledReason | null;
  waiting: number;
}

export const ENDPOINT_SETTINGS = `id, url, types, athlete_ids::text[] AS "athleteIds", description, created_at AS "createdAt", succeeded_at AS "succeededAt",
  failing_since AS "failingSince", disabled_at AS "disabledAt", disabled_reason AS "disabledReason"`;
const COLUMNS = `${ENDPOINT_SETTINGS},
  (SELECT count(*)::int FROM delivery d WHERE d.endpoint_id = endpoint.id AND d.state = 'waiting') AS waiting`;

/**
 * Creates an endpoint; it receives changes from now on. Endpoints created concurrently may exceed `most` by a few.
 * @param endpoint.sealedSecret encrypted
 * @returns undefined when there already are `most`
 */
export async function saveEndpoint(
  tx: Queryable,
  endpoint: EndpointSettings & { sealedSecret: string },
  most: number,
): Promise<EndpointRow | undefined> {
  const [row] = await tx.query<EndpointRow>(
    `INSERT INTO endpoint (url, types, athlete_ids, description, secret, position)
     SELECT $1, $2::text[], $3::bigint[], $4, $5, position FROM change_feed WHERE (SELECT count(*) FROM endpoint) < $6
     RETURNING ${COLUMNS}`,
    [endpoint.url, endpoint.types, endpoint.athleteIds, endpoint.description, endpoint.sealedSecret, most],
  );
  return row;
}

export async function findEndpoint(database: Queryable, id: Int64): Promise<EndpointRow | undefined> {
  return (await database.query<EndpointRow>(`SELECT ${COLUMNS} FROM endpoint WHERE id = $1`, [id]))[0];
}

/** Endpoints in order of their ids. @param options.afterId the id of the last endpoint of the page before */
export async function listEndpoints(
  database: Queryable,
  options: { afterId?: Int64 | undefined; limit: number },
): Promise<EndpointRow[]> {
  return database.query<EndpointRow>(
    `SELECT ${COLUMNS} FROM endpoint WHERE id > coalesce($1::bigint, 0) ORDER BY id LIMIT $2`,
    [options.afterId ?? null, options.limit],
  );
}

/** Changes what is sent to an endpoint, and where; undefined fields stay. */
export async function updateEndpoint(tx: Queryable, id: Int64, settings: EndpointChange): Promise<void> {
  await tx.query(
    `UPDATE endpoint SET url = coalesce($2, url), description = coalesce($3, description),
       types = CASE WHEN $4 THEN $5::text[] ELSE types END, athlete_ids = CASE WHEN $6 THEN $7::bigint[] ELSE athlete_ids END
     WHERE id = $1`,
    [
      id,
      settings.url ?? null,
      settings.description ?? null,
      settings.types !== undefined,
      settings.types ?? null,
      settings.athleteIds !== undefined,
      settings.athleteIds ?? null,
    ],
  );
}

/** Locks an endpoint against other settlements, dispatches and changes of it. @returns false when it no longer exists */
export async function lockEndpoint(tx: Queryable, id: Int64): Promise<boolean> {
  return (await tx.query('SELECT FROM endpoint WHERE id = $1 FOR UPDATE', [id])).length === 1;
}

/** Gives an endpoint a new secret; the former one signs too for that long. @returns until when */
export async function rotateSecret(
  tx: Queryable,
  id: Int64,
  sealedSecret: string,
  overlapMs: number,
): Promise<Date | undefined> {
  const [row] = await tx.query<{ until: Date }>(
    `UPDATE endpoint SET former_secret = secret, former_until = sync_now() + $3 * interval '1 ms', secret = $2
     WHERE id = $1 RETURNING former_until AS until`,
    [id, sealedSecret, overlapMs],
  );
  return row?.until;
}

export async function noteSuccess(tx: Queryable, id: Int64): Promise<void> {
  await tx.query('UPDATE endpoint SET succeeded_at = sync_now(), failing_since = NULL WHERE id = $1', [id]);
}

/** @returns for how long every delivery to the endpoint has failed, in milliseconds */
export async function noteFailure(tx: Queryable, id: Int64): Promise<number> {
  const [row] = await tx.query<{ failing_ms: number }>(
    `UPDATE endpoint SET failing_since = coalesce(failing_since, sync_now()) WHERE id = $1
     RETURNING (extract(epoch FROM sync_now() - failing_since) * 1000)::float8 AS failing_ms`,
    [id],
  );
  return row?.failing_ms ?? 0;
}

/** @returns false when it was disabled before */
export async function setDisabled(tx: Queryable, id: Int64, reason: DisabledReason): Promise<boolean> {
  const rows = await tx.query(
    'UPDATE endpoint SET disabled_at = sync_now(), disabled_reason = $2 WHERE id = $1 AND disabled_at IS NULL RETURNING id',
    [id, reason],
  );
  return rows.length === 1;
}

/** @returns false when it was not disabled */
export async function setEnabled(tx: Queryable, id: Int64): Promise<boolean> {
  const rows = await tx.query(
    'UPDATE endpoint SET disabled_at = NULL, disabled_reason = NULL, failing_since = NULL WHERE id = $1 AND disabled_at IS NOT NULL RETURNING id',
    [id],
  );
  return rows.length === 1;
}

export async function deleteEndpointRow(tx: Queryable, id: Int64): Promise<void> {
  await tx.query('DELETE FROM endpoint WHERE id = $1', [id]);
}

/** How many endpoints there are by state. */
export async function countEndpoints(database: Queryable): Promise<Record<'healthy' | 'failing' | 'disabled', number>> {
  const rows = await database.query<{ state: 'healthy' | 'failing' | 'disabled'; endpoints: number }>(
    `SELECT CASE WHEN disabled_at IS NOT NULL THEN 'disabled' WHEN failing_since IS NOT NULL THEN 'failing' ELSE 'healthy' END AS state,
       count(*)::int AS endpoints FROM endpoint WHERE disabled_reason IS DISTINCT FROM 'request' GROUP BY state`,
    [],
  );
  return { healthy: 0, failing: 0, disabled: 0, ...Object.fromEntries(rows.map((row) => [row.state, row.endpoints])) };
}

/** Endpoints with a secret sealed with another key than the one of `prefix`. */
export async function listSecretsOfOtherKeys(
  database: Queryable,
  prefix: string,
): Promise<{ id: Int64; secret: string; formerSecret: string | null }[]> {
  return database.query(
    `SELECT id, secret, former_secret AS "formerSecret" FROM endpoint
     WHERE NOT (starts_with(secret, $1) AND starts_with(coalesce(former_secret, $1), $1)) ORDER BY id`,
    [prefix],
  );
}

/** Replaces secrets by the same ones under another key. @returns false when they were rotated in the meantime */
export async function resealSecrets(
  database: Queryable,
  stored: { id: Int64; secret: string; formerSecret: string | null },
  fresh: { secret: string; formerSecret: string | null },
): Promise<boolean> {
  const rows = await database.query(
    `UPDATE endpoint SET secret = $4, former_secret = $5
     WHERE id = $1 AND secret = $2 AND former_secret IS NOT DISTINCT FROM $3 RETURNING id`,
    [stored.id, stored.secret, stored.formerSecret, fresh.secret, fresh.formerSecret],
  );
  return rows.length === 1;
}
