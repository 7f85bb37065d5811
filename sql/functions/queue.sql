-- The only place that reads pg-boss's tables. The bodies are strings, so that PostgreSQL records no dependency on
-- pg-boss's schema and its upgrades are free to change it.

-- The jobs of the queue 'activity-fetch'. Inlined by the planner, so the partition's own indexes serve.
CREATE OR REPLACE FUNCTION fetch_queue()
RETURNS TABLE (boss_job_id uuid, activity_id bigint, waiting boolean, running boolean, completed boolean, ended boolean, lane integer, retry_count integer,
  attempts integer, max_attempts integer, start_after timestamptz, started_on timestamptz, changed_on timestamptz, error text)
LANGUAGE sql STABLE
AS $$
  SELECT j.id,
    j.singleton_key::bigint,
    j.state < 'active' AND NOT j.blocked,
    j.state = 'active' AND j.group_id IS NOT NULL,
    j.state = 'completed',
    j.state > 'completed',
    j.priority,
    j.retry_count,
    -- A released job is a new one with as many retries as were left of the queue's limit.
    (SELECT q.retry_limit FROM pgboss.queue q WHERE q.name = 'activity-fetch') - j.retry_limit + j.retry_count
      + CASE WHEN j.state = 'retry' THEN 1 ELSE 0 END,
    (SELECT q.retry_limit FROM pgboss.queue q WHERE q.name = 'activity-fetch'),
    j.start_after,
    j.started_on,
    greatest(j.created_on, j.started_on, j.completed_on),
    -- The second is what pg-boss writes of a run that it gives up.
    coalesce(j.output->>'message', j.output #>> '{value,message}', j.data->>'error')
  FROM pgboss.job j
  WHERE j.name = 'activity-fetch'
$$;

-- When the jobs that wait in a lane may start, oldest first: the order of pg-boss's index of waiting jobs, so that no
-- other index is walked for it.
CREATE OR REPLACE FUNCTION waiting_in_lane(p_lane integer) RETURNS TABLE (start_after timestamptz) LANGUAGE sql STABLE
AS $$
  SELECT j.start_after FROM pgboss.job j
  WHERE j.name = 'activity-fetch' AND j.state < 'active' AND NOT j.blocked AND j.priority = p_lane
  ORDER BY j.priority DESC, j.created_on, j.start_after
$$;

-- The jobs of the queue 'thumbnail', in the order in which they are claimed.
CREATE OR REPLACE FUNCTION thumbnail_queue()
RETURNS TABLE (boss_job_id uuid, activity_id bigint, waiting boolean, running boolean, retry_count integer, start_after timestamptz, started_on timestamptz)
LANGUAGE sql STABLE
AS $$
  SELECT j.id, j.singleton_key::bigint, j.state < 'active' AND NOT j.blocked, j.state = 'active', j.retry_count, j.start_after, j.started_on
  FROM pgboss.job j
  WHERE j.name = 'thumbnail'
  ORDER BY j.priority DESC, j.created_on, j.start_after
$$;

-- The deauthorisations that wait for their next attempt, since the provider neither accepted nor refused the token.
CREATE OR REPLACE FUNCTION unconfirmed_deauthorizations() RETURNS integer LANGUAGE sql STABLE
AS $$ SELECT count(*)::integer FROM pgboss.job j WHERE j.name = 'deauthorization' AND j.state = 'retry' $$;

-- The attempts at deliveries to the application's endpoints.
CREATE OR REPLACE FUNCTION delivery_queue()
RETURNS TABLE (boss_job_id uuid, waiting boolean, running boolean, retry_count integer, start_after timestamptz, started_on timestamptz)
LANGUAGE sql STABLE
AS $$
  SELECT j.id, j.state < 'active' AND NOT j.blocked, j.state = 'active' AND j.group_id IS NOT NULL, j.retry_count, j.start_after, j.started_on
  FROM pgboss.job j
  WHERE j.name = 'delivery'
$$;
