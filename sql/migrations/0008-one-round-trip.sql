-- The steps that every job takes, each as one round trip and one transaction for several jobs. pg-boss's
-- part is done by pg-boss's own statements: the functions boss_fetch, boss_complete, boss_delete,
-- boss_insert_fetch and boss_insert_thumbnail hold their text as the installed pg-boss makes it, and are
-- written anew at every migration.

-- Accepts webhook events of activities for good: as accept_events, and what pg-boss must do is done. Raises
-- SY002 when a waiting job must change its lane: nothing is changed, and the caller takes the long way.
CREATE FUNCTION accept_events_at_once(p_events jsonb)
RETURNS TABLE (activity_id bigint, athlete_id bigint, job_id bigint, result text)
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
  v_actions fetch_action[];
  v_outdated uuid[];
  v_added text;
BEGIN
  SELECT array_agg(f) INTO v_actions FROM accept_events(p_events) f;
  IF EXISTS (SELECT FROM unnest(v_actions) a WHERE a.boss_action = 'move') THEN
    RAISE EXCEPTION 'a job changes its lane' USING ERRCODE = 'SY002';
  END IF;
  SELECT array_agg(a.old_boss_job_id) FILTER (WHERE a.boss_action = 'reopen'),
    json_agg(json_build_object('id', a.boss_job_id, 'priority', a.lane, 'singletonKey', a.activity_id::text, 'groupId', a.athlete_id::text,
      'data', json_build_object('activityId', a.activity_id::text))) FILTER (WHERE a.boss_action IN ('insert', 'reopen'))
  INTO v_outdated, v_added FROM unnest(v_actions) a;
  IF v_outdated IS NOT NULL THEN
    PERFORM boss_delete('activity-fetch', v_outdated);
  END IF;
  IF v_added IS NOT NULL THEN
    PERFORM boss_insert_fetch(v_added);
  END IF;
  RETURN QUERY SELECT a.activity_id, a.athlete_id, a.job_id, a.result FROM unnest(v_actions) a;
END
$$;

-- Planned once, for every number of events; a plan made while the tables were empty must not scan them
-- once they are full.
ALTER FUNCTION accept_events_at_once(jsonb) SET plan_cache_mode = force_generic_plan;
ALTER FUNCTION accept_events_at_once(jsonb) SET enable_seqscan = off;
ALTER FUNCTION accept_events_at_once(jsonb) SET enable_bitmapscan = off;

-- Claims up to p_most jobs whose turn it is: lane, job, budget and cooldown together, or nothing at all. A
-- row for each: claim is 'run', or 'orphan' for a job whose request is gone. When fewer could be claimed, a
-- last row says when to ask again ('wait'; wait_ms null: nothing waits), or to do so at once ('again').
-- p_hold_ms: how long an athlete is kept from another call unless end_cooldown sets it exactly before.
CREATE FUNCTION claim_runs(p_most integer, p_hold_ms integer)
RETURNS TABLE (claim text, wait_ms double precision, waits_for text, boss_job_id uuid, retry_count integer, attempts integer,
  job_id bigint, activity_id bigint, athlete_id bigint, reason text, force boolean, aspect text, version integer,
  needs_call boolean, known_athlete boolean, known_activity boolean, access_token text, token_expires_at timestamptz, scope text,
  athlete_state text, started_at text, requested_at timestamptz, waited_ms double precision)
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
  b rate_budget;
  v_now timestamptz := sync_clock();
  v_turn record;
  v_job record;
  v_locked boolean := false;
  v_spent boolean := false;
  v_claimed integer := 0;
BEGIN
  SELECT * INTO b FROM rate_budget;
  b := budget_at(b, v_now);
  WHILE v_claimed < p_most LOOP
    SELECT * INTO v_turn FROM next_turn(b, v_now);
    IF v_turn.lane IS NULL THEN
      claim := 'wait'; waits_for := v_turn.waits_for;
      wait_ms := CASE WHEN v_turn.wake_at < 'infinity' THEN greatest(0, ceil(extract(epoch FROM v_turn.wake_at - sync_clock()) * 1000)) END;
      EXIT;
    END IF;
    IF NOT v_locked AND v_turn.reason IS NOT NULL THEN
      -- Under the budget's lock from here on. What was open at the look may have closed meanwhile.
      b := lock_budget();
      v_now := sync_clock();
      b := budget_at(b, v_now);
      v_locked := true;
      CONTINUE WHEN budget_opens_at(b, v_turn.reason, v_now) > v_now;
    END IF;
    SELECT * INTO v_job FROM boss_fetch(v_turn.lane, v_turn.lane);
    IF v_job.o_id IS NULL THEN
      -- Not due yet by this transaction's time, or held by another for the moment.
      PERFORM rest_lane(v_turn.lane);
      claim := 'again';
      EXIT;
    END IF;
    v_claimed := v_claimed + 1;
    boss_job_id := v_job.o_id; retry_count := v_job.o_retry_count; attempts := 5 - v_job.o_retry_limit + v_job.o_retry_count;
    SELECT j.id, j.activity_id, j.athlete_id, j.reason, j.force, j.aspect, j.version, j.requested_at,
      a.athlete_id IS NOT NULL, a.access_token, a.token_expires_at, a.scope, a.state,
      EXISTS (SELECT FROM activity k WHERE k.activity_id = j.activity_id)
    INTO job_id, activity_id, athlete_id, reason, force, aspect, version, requested_at,
      known_athlete, access_token, token_expires_at, scope, athlete_state, known_activity
    FROM activity_fetch_job j LEFT JOIN athlete a ON a.athlete_id = j.athlete_id
    WHERE j.boss_job_id = v_job.o_id;
    claim := CASE WHEN FOUND THEN 'run' ELSE 'orphan' END;
    needs_call := claim = 'run' AND aspect <> 'delete' AND known_athlete AND athlete_state <> 'reconnect' AND (force OR NOT known_activity);
    started_at := v_now;
    waited_ms := greatest(0, extract(epoch FROM v_now - greatest(v_job.o_start_after, requested_at)) * 1000);
    IF needs_call THEN
      b := spend_call(b, v_turn.reason, v_now);
      v_spent := true;
    END IF;
    PERFORM turn_lane(v_turn.lane, v_now, CASE WHEN needs_call THEN v_now + p_hold_ms * interval '1 ms' ELSE '-infinity' END);
    RETURN NEXT;
  END LOOP;
  IF v_spent THEN
    PERFORM save_budget(b);
  END IF;
  IF v_claimed < p_most THEN
    RETURN NEXT;
  END IF;
END
$$;

-- A plan made while the tables were empty must not scan them once they are full, and is good for every
-- number of jobs.
ALTER FUNCTION claim_runs(integer, integer) SET enable_seqscan = off;
ALTER FUNCTION claim_runs(integer, integer) SET enable_bitmapscan = off;
ALTER FUNCTION claim_runs(integer, integer) SET enable_sort = off;
ALTER FUNCTION claim_runs(integer, integer) SET plan_cache_mode = force_generic_plan;

-- A run with what was fetched, as store_runs takes it; n is the number of its detail, from 0.
CREATE TYPE stored_run AS (
  n integer,
  "jobId" bigint, version integer, "bossJobId" uuid, "retryCount" integer, "startedAt" timestamptz, "cooldownMs" integer, "answeredAgoMs" integer,
  "activityId" bigint, "athleteId" bigint, name text, "sportType" text, "startDate" timestamptz, timezone text, "distanceM" double precision,
  "movingTimeS" integer, "elapsedTimeS" integer, "elevationGainM" double precision, private boolean, polyline text);

-- Ends runs whose activities were fetched, at most one for each activity: the activities, their thumbnail
-- jobs and the fetch jobs' completion together. p_runs: stored_run as JSON, p_details: the provider's
-- answers. A row for each says:
--   stored
--   tombstone  the activity was deleted meanwhile; the job ends, nothing is stored
--   moved      requests came after the run began: nothing is changed, and the caller takes the long way
--   lost       the job was taken back or deleted meanwhile: nothing is changed
CREATE FUNCTION store_runs(p_runs jsonb, p_details jsonb) RETURNS TABLE (job_id bigint, result text)
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
  v_runs stored_run[];
  v_unmoved bigint[];
  v_moved bigint[];
  v_completed uuid[];
  v_stored bigint[];
BEGIN
  SELECT array_agg(r ORDER BY r."activityId") INTO v_runs FROM jsonb_populate_recordset(NULL::stored_run, p_runs) r;
  PERFORM FROM athlete_schedule s
  WHERE s.athlete_id IN (SELECT r."athleteId" FROM unnest(v_runs) r)
  ORDER BY s.athlete_id
  FOR UPDATE;
  -- Locked, so that a notification waits, or has been counted.
  SELECT array_agg(j.id) FILTER (WHERE j.version = r.version), array_agg(j.id) FILTER (WHERE j.version <> r.version)
  INTO v_unmoved, v_moved
  FROM unnest(v_runs) r CROSS JOIN LATERAL (
    SELECT j.id, j.version FROM activity_fetch_job j WHERE j.id = r."jobId" FOR UPDATE
  ) j;
  SELECT o_ids INTO v_completed FROM boss_complete('activity-fetch',
    (SELECT array_agg(r."bossJobId") FROM unnest(v_runs) r WHERE r."jobId" = ANY (v_unmoved)), NULL,
    (SELECT array_agg(r."bossJobId"::text || ':' || r."retryCount") FROM unnest(v_runs) r WHERE r."jobId" = ANY (v_unmoved)));

  UPDATE activity_fetch_job j SET outcome = 'stored' WHERE j.id = ANY (v_unmoved) AND j.boss_job_id = ANY (v_completed);
  PERFORM end_cooldown(r."athleteId", r."cooldownMs", r."answeredAgoMs") FROM unnest(v_runs) r WHERE r."bossJobId" = ANY (v_completed);
  DELETE FROM activity_tombstone t USING unnest(v_runs) r
  WHERE t.activity_id = r."activityId" AND t.deleted_at <= r."startedAt" AND r."bossJobId" = ANY (v_completed);
  WITH saved AS (
    INSERT INTO activity AS a (activity_id, athlete_id, name, sport_type, start_date, timezone, distance_m,
      moving_time_s, elapsed_time_s, elevation_gain_m, private, polyline, detail, fetched_at)
    SELECT r."activityId", r."athleteId", r.name, r."sportType", r."startDate", r.timezone, r."distanceM",
      r."movingTimeS", r."elapsedTimeS", r."elevationGainM", r.private, r.polyline, p_details -> r.n, sync_now()
    FROM unnest(v_runs) r
    WHERE r."bossJobId" = ANY (v_completed)
      AND NOT EXISTS (SELECT FROM activity_tombstone t WHERE t.activity_id = r."activityId")
    ON CONFLICT (activity_id) DO UPDATE SET
      athlete_id = excluded.athlete_id, name = excluded.name, sport_type = excluded.sport_type, start_date = excluded.start_date,
      timezone = excluded.timezone, distance_m = excluded.distance_m, moving_time_s = excluded.moving_time_s,
      elapsed_time_s = excluded.elapsed_time_s, elevation_gain_m = excluded.elevation_gain_m, private = excluded.private,
      polyline = excluded.polyline, detail = excluded.detail, fetched_at = excluded.fetched_at
    RETURNING a.activity_id
  )
  SELECT array_agg(activity_id) INTO v_stored FROM saved;
  IF v_stored IS NOT NULL THEN
    PERFORM boss_insert_thumbnail(json_agg(json_build_object('singletonKey', s.id::text, 'data', json_build_object('activityId', s.id::text)))::text)
    FROM unnest(v_stored) AS s (id);
    -- Nobody needs to be woken while earlier ones wait: a worker that is awake asks again by itself.
    IF NOT EXISTS (SELECT FROM pgboss.job t WHERE t.name = 'thumbnail' AND t.state < 'active' AND NOT t.blocked
        AND t.start_after <= sync_now() AND t.singleton_key <> ALL (v_stored::text[])) THEN
      PERFORM pg_notify('activity_sync', 'thumbnail');
    END IF;
  END IF;
  RETURN QUERY
  SELECT r."jobId", CASE
    WHEN r."jobId" = ANY (v_moved) THEN 'moved'
    WHEN r."bossJobId" = ANY (v_completed) THEN CASE WHEN r."activityId" = ANY (v_stored) THEN 'stored' ELSE 'tombstone' END
    ELSE 'lost' END
  FROM unnest(v_runs) r;
END
$$;

ALTER FUNCTION store_runs(jsonb, jsonb) SET enable_seqscan = off;
ALTER FUNCTION store_runs(jsonb, jsonb) SET enable_bitmapscan = off;
ALTER FUNCTION store_runs(jsonb, jsonb) SET plan_cache_mode = force_generic_plan;

-- Stores or replaces an activity. A tombstone set after the run began wins, since the answer may be
-- older than the deletion: returns false, and nothing is stored.
CREATE FUNCTION save_activity(p_activity_id bigint, p_athlete_id bigint, p_name text, p_sport_type text, p_start_date timestamptz, p_timezone text,
  p_distance_m double precision, p_moving_time_s integer, p_elapsed_time_s integer, p_elevation_gain_m double precision,
  p_private boolean, p_polyline text, p_detail jsonb, p_run_started_at timestamptz)
RETURNS boolean LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
  v_deleted_at timestamptz;
BEGIN
  SELECT t.deleted_at INTO v_deleted_at FROM activity_tombstone t WHERE t.activity_id = p_activity_id;
  IF v_deleted_at > p_run_started_at THEN
    RETURN false;
  END IF;
  IF v_deleted_at IS NOT NULL THEN
    DELETE FROM activity_tombstone t WHERE t.activity_id = p_activity_id;
  END IF;
  INSERT INTO activity AS a (activity_id, athlete_id, name, sport_type, start_date, timezone, distance_m,
    moving_time_s, elapsed_time_s, elevation_gain_m, private, polyline, detail, fetched_at)
  VALUES (p_activity_id, p_athlete_id, p_name, p_sport_type, p_start_date, p_timezone, p_distance_m,
    p_moving_time_s, p_elapsed_time_s, p_elevation_gain_m, p_private, p_polyline, p_detail, sync_now())
  ON CONFLICT (activity_id) DO UPDATE SET
    athlete_id = excluded.athlete_id, name = excluded.name, sport_type = excluded.sport_type, start_date = excluded.start_date,
    timezone = excluded.timezone, distance_m = excluded.distance_m, moving_time_s = excluded.moving_time_s,
    elapsed_time_s = excluded.elapsed_time_s, elevation_gain_m = excluded.elevation_gain_m, private = excluded.private,
    polyline = excluded.polyline, detail = excluded.detail, fetched_at = excluded.fetched_at;
  RETURN true;
END
$$;
