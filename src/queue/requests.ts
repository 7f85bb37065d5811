import type { Int64 } from '../domain/int64.ts';
import type { ActivityEvent, FetchRequest } from '../domain/job.ts';
import type { Queryable } from '../infra/database.ts';

/** Deletions share one lane, which knows neither budget nor cooldown. */
export const DELETION_LANE = 1;

/** What became of a request: a run of its own, part of one that stands, or nothing. */
export interface RequestResult {
  activityId: Int64;
  athleteId: Int64;
  /** The ActivityFetchJob's id; undefined for a repeat whose job has been removed since. */
  jobId: Int64 | undefined;
  result: 'accepted' | 'joined' | 'stale' | 'duplicate';
}

interface ResultRow {
  activity_id: string;
  athlete_id: string;
  job_id: string | null;
  result: RequestResult['result'];
}

/**
 * Asks for fetches inside the caller's transaction; see add_requests in sql/migrations for how a request
 * joins what stands. At most one request for each activity.
 */
export async function requestFetches(tx: Queryable, requests: readonly FetchRequest[]): Promise<RequestResult[]> {
  if (requests.length === 0) return [];
  const rows = await tx.query<ResultRow>('SELECT * FROM request_fetches($1::text::jsonb)', [JSON.stringify(requests)]);
  return rows.map(toResult);
}

/**
 * Accepts webhook events of activities: ledger row, request and job, as one transaction and one round
 * trip. At most one event for each activity.
 */
export async function acceptActivityEvents(
  queryable: Queryable,
  events: readonly ActivityEvent[],
): Promise<RequestResult[]> {
  const owners = events.map(({ ownerId }) => ownerId);
  const values = [
    [...new Set(owners)],
    events.map(({ objectId }) => objectId),
    owners,
    events.map(({ aspect }) => aspect),
    events.map(({ eventTime }) => eventTime),
    events.map(({ subscriptionId }) => subscriptionId),
    events.map(({ updates }) => JSON.stringify(updates)),
  ];
  const rows = await queryable.query<ResultRow>('SELECT * FROM accept_events($1, $2, $3, $4, $5, $6, $7)', values);
  return rows.map(toResult);
}

/** Opens finished requests again: same ActivityFetchJob, a new pg-boss job, attempts 0. @returns how many */
export async function reopenJobs(tx: Queryable, jobIds: readonly Int64[]): Promise<number> {
  if (jobIds.length === 0) return 0;
  const [row] = await tx.query<{ reopened: number }>('SELECT reopen_jobs($1::bigint[]) AS reopened', [jobIds]);
  return row?.reopened ?? 0;
}

function toResult(row: ResultRow): RequestResult {
  return { activityId: row.activity_id, athleteId: row.athlete_id, jobId: row.job_id ?? undefined, result: row.result };
}
