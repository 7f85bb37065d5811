import type { Int64 } from '../domain/int64.ts';
import type { Queryable } from '../infra/database.ts';

/** Where a fetch request came from, other than the provider; `connect`: the athlete granted the access that it lacked. */
export const REQUEST_KINDS = ['request', 'retry', 'replay', 'sync', 'polling', 'connect'] as const;

/** The credential of a client: the admin token, or a browser session. */
export type Requester = 'admin' | 'session';

export interface Asked {
  kind: (typeof REQUEST_KINDS)[number];
  /** Undefined for the service itself. */
  by?: Requester | undefined;
  /** Of a replay the ledger entry, of a sync its id. */
  source?: Int64 | undefined;
}

/** Writes a request for each of these jobs into their history, inside the caller's transaction. */
export async function recordRequests(
  tx: Queryable,
  jobIds: readonly Int64[],
  { kind, by, source }: Asked,
): Promise<void> {
  if (jobIds.length === 0) return;
  await tx.query(
    `INSERT INTO fetch_request (job_id, kind, requested_by, source) SELECT id, $2, $3, $4 FROM unnest($1::bigint[]) AS id`,
    [jobIds, kind, by ?? null, source ?? null],
  );
}

export interface FetchRequestRow {
  at: Date;
  kind: Asked['kind'];
  by: Requester | null;
  source: Int64 | null;
}

/** The newest requests for a job, oldest of them first. */
export async function listRequests(database: Queryable, jobId: Int64, limit: number): Promise<FetchRequestRow[]> {
  const newest = await database.query<FetchRequestRow>(
    'SELECT at, kind, requested_by AS by, source FROM fetch_request WHERE job_id = $1 ORDER BY id DESC LIMIT $2',
    [jobId, limit],
  );
  return newest.reverse();
}
