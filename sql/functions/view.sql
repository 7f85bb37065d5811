-- The documented resource: the request is activity_fetch_job's, the state is pg-boss's. Each status is a branch of its
-- own, so that a lookup by status uses the index by outcome.
CREATE OR REPLACE VIEW "ActivityFetchJob" AS
  SELECT r.id,
    r.activity_id AS "activityId",
    r.athlete_id AS "athleteId",
    r.reason,
    r.force,
    'pending'::text AS status,
    f.attempts,
    f.max_attempts AS "maxAttempts",
    -- A job waits for its own start, its athlete's cooldown and the budget, whichever is last.
    CASE WHEN r.aspect = 'delete' AND r.signed THEN f.start_after
      ELSE greatest(f.start_after, s.cooldown_until,
        (SELECT budget_opens_at(budget_at(b, sync_now()), r.reason, sync_now()) FROM rate_budget b)) END AS "nextRunAt",
    f.error,
    r.created_at AS "createdAt",
    greatest(r.requested_at, f.changed_on) AS "updatedAt"
  FROM activity_fetch_job r
  JOIN fetch_queue() f ON f.boss_job_id = r.boss_job_id
  LEFT JOIN athlete_schedule s ON s.athlete_id = r.athlete_id
  WHERE f.waiting AND r.outcome IS NULL
UNION ALL
  SELECT r.id, r.activity_id, r.athlete_id, r.reason, r.force, 'working', f.attempts, f.max_attempts, f.start_after, f.error,
    r.created_at, greatest(r.requested_at, f.changed_on)
  FROM activity_fetch_job r
  JOIN fetch_queue() f ON f.boss_job_id = r.boss_job_id
  WHERE f.running AND r.outcome IS NULL
UNION ALL
  SELECT r.id, r.activity_id, r.athlete_id, r.reason, r.force, 'done', f.attempts, f.max_attempts, f.start_after, f.error,
    r.created_at, greatest(r.requested_at, f.changed_on)
  FROM activity_fetch_job r
  JOIN fetch_queue() f ON f.boss_job_id = r.boss_job_id
  WHERE f.completed AND r.outcome IN ('stored', 'skipped', 'deleted', 'refuted')
UNION ALL
  -- pg-boss keeps the start of the retry that a final failure cancelled.
  SELECT r.id, r.activity_id, r.athlete_id, r.reason, r.force, 'failed', f.attempts, f.max_attempts, least(f.start_after, f.changed_on), f.error,
    r.created_at, greatest(r.requested_at, f.changed_on)
  FROM activity_fetch_job r
  JOIN fetch_queue() f ON f.boss_job_id = r.boss_job_id
  WHERE f.ended AND r.outcome IN ('notFound', 'unauthorized', 'forbidden', 'unknownAthlete', 'exhausted', 'unusable');

ALTER VIEW "ActivityFetchJob" ALTER COLUMN force SET DEFAULT false;
ALTER VIEW "ActivityFetchJob" ALTER COLUMN status SET DEFAULT 'pending';
ALTER VIEW "ActivityFetchJob" ALTER COLUMN attempts SET DEFAULT 0;
ALTER VIEW "ActivityFetchJob" ALTER COLUMN "maxAttempts" SET DEFAULT 5;
ALTER VIEW "ActivityFetchJob" ALTER COLUMN "nextRunAt" SET DEFAULT now();
ALTER VIEW "ActivityFetchJob" ALTER COLUMN "createdAt" SET DEFAULT now();
ALTER VIEW "ActivityFetchJob" ALTER COLUMN "updatedAt" SET DEFAULT now();
COMMENT ON VIEW "ActivityFetchJob" IS 'Fetch jobs with the documented fields; read only.';
