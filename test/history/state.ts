import type { Database } from '../../src/infra/database.ts';

/** What the database holds at one time. */
export interface State {
  requests: {
    activityId: string;
    athleteId: string;
    isOpen: boolean;
    waiting: boolean;
    running: boolean;
    attempts: number;
    /** Which process runs it, by its claim. */
    processId: number | null;
    /** A waiting job's lane will be checked. */
    hasDueLane: boolean;
    failures: number;
    /** It was requested again after the claim. */
    hasMoved: boolean;
  }[];
  /** pg-boss's jobs that no request names. */
  orphans: number;
  activities: { activityId: string; athleteId: string; name: string }[];
  tombstones: string[];
  /** Calls that the budget has counted in the current window. */
  used: number;
}

const READ = `
  SELECT
    (SELECT coalesce(json_agg(json_build_object('activityId', r.activity_id::text, 'athleteId', r.athlete_id::text, 'isOpen', r.outcome IS NULL,
       'waiting', coalesce(f.waiting, false), 'running', coalesce(f.running, false), 'attempts', f.attempts, 'processId', c.process_id, 'hasMoved', coalesce(c.version <> r.version, false),
       'hasDueLane', EXISTS (SELECT FROM lane l WHERE l.lane = f.lane AND l.athlete_id = r.athlete_id AND l.due_at <= greatest(f.start_after, sync_now() + interval '25 ms')),
       'failures', (SELECT count(*) FROM fetch_attempt a WHERE a.job_id = r.id AND a.result <> 'done'))), '[]')
     FROM activity_fetch_job r LEFT JOIN fetch_queue() f ON f.boss_job_id = r.boss_job_id LEFT JOIN job_claim c ON c.boss_job_id = f.boss_job_id) AS requests,
    (SELECT count(*)::int FROM fetch_queue() f WHERE NOT EXISTS (SELECT FROM activity_fetch_job r WHERE r.boss_job_id = f.boss_job_id)) AS orphans,
    (SELECT coalesce(json_agg(json_build_object('activityId', activity_id::text, 'athleteId', athlete_id::text, 'name', name)), '[]') FROM activity) AS activities,
    (SELECT coalesce(json_agg(activity_id::text), '[]') FROM activity_tombstone) AS tombstones,
    (SELECT (budget_at(b, sync_now())).used FROM rate_budget b) AS used`;

export async function readState(database: Database): Promise<State> {
  const [row] = await database.query<State>(READ, []);
  return row as State;
}
