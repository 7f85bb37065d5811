import type { PgBoss } from 'pg-boss';
import type { Int64 } from '../domain/int64.ts';
import type { ActivityEvent, FetchRequest } from '../domain/job.ts';
import { FETCH_QUEUE } from '../infra/boss.ts';
import { type Database, isLostAgainstAnother, type Queryable } from '../infra/database.ts';

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

interface ActionRow {
  activity_id: string;
  athlete_id: string;
  job_id: string | null;
  result: RequestResult['result'];
  boss_action: 'insert' | 'reopen' | 'move' | 'nothing';
  boss_job_id: string | null;
  old_boss_job_id: string | null;
  lane: number | null;
}

/** Raised by accept_events_at_once. */
const LANE_CHANGES = 'SY002';

const COLUMNS = 'activity_id, athlete_id, job_id, result, boss_action, boss_job_id, old_boss_job_id, lane';

/**
 * Asks for fetches inside the caller's transaction; see request_fetch in sql/migrations for how a
 * request joins what stands. At most one request for each activity.
 */
export async function requestFetches(
  boss: PgBoss,
  tx: Queryable,
  requests: readonly FetchRequest[],
): Promise<RequestResult[]> {
  if (requests.length === 0) return [];
  const rows = await tx.query<ActionRow>(`SELECT ${COLUMNS} FROM request_fetch($1::text::jsonb)`, [
    JSON.stringify(requests),
  ]);
  await applyActions(boss, tx, rows);
  if (rows.some((row) => row.boss_action !== 'nothing')) await tx.query(`SELECT pg_notify('activity_sync', 'fetch')`);
  return rows.map(toResult);
}

/**
 * Accepts webhook events of activities: ledger row, request and job, as one transaction and one round
 * trip. At most one event for each activity.
 */
export async function acceptActivityEvents(
  database: Database,
  boss: PgBoss,
  events: readonly ActivityEvent[],
): Promise<RequestResult[]> {
  const values = [JSON.stringify(events)];
  try {
    const rows = await database.query<ActionRow>(
      'SELECT activity_id, athlete_id, job_id, result FROM accept_events_at_once($1::text::jsonb)',
      values,
    );
    return rows.map(toResult);
  } catch (error) {
    const { code } = error as { code?: unknown };
    if (code !== LANE_CHANGES && !isLostAgainstAnother(error)) throw error;
  }
  // The long way: what pg-boss must do is done through its own interface.
  return database.transaction(async (tx) => {
    const rows = await tx.query<ActionRow>(`SELECT ${COLUMNS} FROM accept_events($1::text::jsonb)`, values);
    await applyActions(boss, tx, rows);
    return rows.map(toResult);
  });
}

/** Opens finished requests again: same ActivityFetchJob, a new pg-boss job, attempts 0. @returns how many */
export async function reopenJobs(boss: PgBoss, tx: Queryable, jobIds: readonly Int64[]): Promise<number> {
  if (jobIds.length === 0) return 0;
  const rows = await tx.query<ActionRow>(`SELECT ${COLUMNS} FROM reopen_jobs($1::bigint[])`, [jobIds]);
  await applyActions(boss, tx, rows);
  if (rows.length > 0) await tx.query(`SELECT pg_notify('activity_sync', 'fetch')`);
  return rows.length;
}

async function applyActions(boss: PgBoss, tx: Queryable, rows: readonly ActionRow[]): Promise<void> {
  const outdated = rows.flatMap((row) =>
    row.boss_action === 'reopen' && row.old_boss_job_id ? [row.old_boss_job_id] : [],
  );
  if (outdated.length > 0) await boss.deleteJob(FETCH_QUEUE, outdated, { db: tx });
  const added = rows.filter((row) => row.boss_action === 'insert' || row.boss_action === 'reopen');
  if (added.length > 0) await boss.insert(FETCH_QUEUE, added.map(toBossJob), { db: tx });
  for (const row of rows.filter(({ boss_action }) => boss_action === 'move')) {
    const toDeletions = row.lane === DELETION_LANE;
    await boss.update(FETCH_QUEUE, undefined, {
      id: row.boss_job_id as string,
      priority: row.lane as number,
      ...(toDeletions ? { startAfter: 0 } : {}), // a deletion calls nobody, so it waits for no backoff
      db: tx,
    });
  }
}

function toBossJob(row: ActionRow) {
  return {
    id: row.boss_job_id as string,
    priority: row.lane as number,
    singletonKey: row.activity_id,
    group: { id: row.athlete_id },
    data: { activityId: row.activity_id },
  };
}

function toResult(row: ActionRow): RequestResult {
  return { activityId: row.activity_id, athleteId: row.athlete_id, jobId: row.job_id ?? undefined, result: row.result };
}
