import type { Int64 } from '../domain/int64.ts';
import {
  DONE_OUTCOMES,
  FAILED_OUTCOMES,
  type JobStatus,
  OUTCOMES,
  type Outcome,
  REASONS,
  type Reason,
} from '../domain/job.ts';
import type { Queryable } from '../infra/database.ts';

/** Which jobs; undefined fields do not filter. */
export interface JobFilter {
  status?: JobStatus | undefined;
  athleteId?: Int64 | undefined;
  activityId?: Int64 | undefined;
  reason?: Reason | undefined;
  /** Last requested before then. */
  requestedBefore?: Date | undefined;
  /** Last changed at or after, and before. */
  since?: Date | undefined;
  until?: Date | undefined;
  /** Part of the last error, in either case; a number of four digits or more matches any other. */
  error?: string | undefined;
}

/** The outcomes that make up a status; null is the outcome of an open job. */
export function outcomesOf(status: JobStatus | undefined): readonly (Outcome | null)[] {
  if (status === undefined) return [null, ...OUTCOMES];
  if (status === 'done') return DONE_OUTCOMES;
  if (status === 'failed') return FAILED_OUTCOMES;
  return [null];
}

/**
 * The ids of the jobs that match, newest first.
 * @param beforeId only ids below it: the last one of the page before
 * @param atMost written into the statement, since a plan for "some number" of rows would read them all; give few different ones
 */
export async function listJobIds(
  database: Queryable,
  filter: JobFilter,
  beforeId: Int64 | undefined,
  atMost: number,
): Promise<Int64[]> {
  const { values, conditions, add } = conditionsOf(filter);
  add('r.requested_at <', filter.requestedBefore);
  add('r.id <', beforeId);
  const rows = await database.query<{ id: string }>(pageOf(filter, conditions, Math.trunc(atMost)), values);
  return rows.map((row) => row.id);
}

/** Which of these jobs have the time and the error that a filter names; all of them where it names neither. */
export async function keepMatching(tx: Queryable, ids: readonly Int64[], filter: JobFilter): Promise<Int64[]> {
  const { values, conditions } = conditionsOf(filter);
  values.push(ids);
  const rows = await tx.query<{ id: string }>(
    `SELECT r.id FROM activity_fetch_job r WHERE ${[...conditions, `r.id = ANY ($${values.length}::bigint[])`].join(' AND ')}`,
    values,
  );
  return rows.map((row) => row.id);
}

/** The conditions of a filter besides its status, with their values. */
export function conditionsOf(filter: JobFilter) {
  const values: unknown[] = [];
  const conditions: string[] = [];
  const bind = (value: unknown) => `$${values.push(value)}`;
  const add = (condition: string, value: unknown) => {
    if (value !== undefined) conditions.push(`${condition} ${bind(value)}`);
  };
  add('r.athlete_id =', filter.athleteId);
  add('r.activity_id =', filter.activityId);
  add('r.reason =', filter.reason);
  const ofQueue: string[] = [];
  if (filter.since) ofQueue.push(`greatest(r.requested_at, f.changed_on) >= ${bind(filter.since)}`);
  if (filter.until) ofQueue.push(`greatest(r.requested_at, f.changed_on) < ${bind(filter.until)}`);
  if (filter.error !== undefined)
    ofQueue.push(
      `position(lower(${kindOfError(`${bind(filter.error)}::text`)}) in lower(${kindOfError('f.error')})) > 0`,
    );
  if (ofQueue.length > 0)
    conditions.push(
      `EXISTS (SELECT FROM fetch_queue() f WHERE f.boss_job_id = r.boss_job_id AND ${ofQueue.join(' AND ')})`,
    );
  return { values, conditions, add };
}

/** An error without what differs between jobs that fail alike: ids and milliseconds. A status of HTTP has three digits. */
export function kindOfError(sql: string): string {
  return `regexp_replace(${sql}, '[0-9]{4,}', '…', 'g')`;
}

const RUNNING = 'SELECT f.activity_id FROM fetch_queue() f WHERE f.running';

// Every statement below reads one index, or one range of it for each outcome, in the order of the page.
function pageOf(filter: JobFilter, conditions: string[], limit: number): string {
  const select = (more: readonly string[], order = 'r.id DESC') =>
    `SELECT r.id FROM activity_fetch_job r WHERE ${[...conditions, ...more].join(' AND ') || 'true'} ORDER BY ${order} LIMIT ${limit}`;
  // Few jobs run at any time, among any number that wait.
  if (filter.status === 'working') return select(['r.outcome IS NULL', `r.activity_id = ANY (ARRAY(${RUNNING}))`]);
  const notRunning = filter.status === 'pending' ? [`r.activity_id <> ALL (ARRAY(${RUNNING}))`] : [];
  const { activityId, athleteId, reason, status } = filter;
  if (activityId !== undefined || (athleteId === undefined && reason === undefined && status === undefined)) {
    return select([...statusCondition(status), ...notRunning]);
  }
  // Ordered by the outcome too, which is the same throughout a range: only the index of the athlete or of
  // the outcome has that order, so the planner cannot gamble on an index of all ids.
  const reasons =
    athleteId === undefined && reason === undefined ? REASONS.map((one) => [`r.reason = '${one}'`]) : [[]];
  const ranges = outcomesOf(status).flatMap((outcome) =>
    reasons.map((ofReason) => `(${select([...ofReason, outcomeIs(outcome), ...notRunning], 'r.outcome, r.id DESC')})`),
  );
  return `SELECT id FROM (${ranges.join(' UNION ALL ')}) ranges ORDER BY id DESC LIMIT ${limit}`;
}

function statusCondition(status: JobStatus | undefined): string[] {
  if (status === undefined) return [];
  const outcomes = outcomesOf(status).filter((outcome) => outcome !== null);
  return [
    outcomes.length === 0 ? 'r.outcome IS NULL' : `r.outcome IN (${outcomes.map((one) => `'${one}'`).join(', ')})`,
  ];
}

function outcomeIs(outcome: Outcome | null): string {
  return outcome === null ? 'r.outcome IS NULL' : `r.outcome BETWEEN '${outcome}' AND '${outcome}'`;
}
