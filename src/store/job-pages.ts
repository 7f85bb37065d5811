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
  const values: unknown[] = [];
  const conditions: string[] = [];
  const add = (condition: string, value: unknown) => {
    if (value === undefined) return;
    values.push(value);
    conditions.push(`${condition} $${values.length}`);
  };
  add('r.athlete_id =', filter.athleteId);
  add('r.activity_id =', filter.activityId);
  add('r.reason =', filter.reason);
  add('r.requested_at <', filter.requestedBefore);
  add('r.id <', beforeId);
  const rows = await database.query<{ id: string }>(pageOf(filter, conditions, Math.trunc(atMost)), values);
  return rows.map((row) => row.id);
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
