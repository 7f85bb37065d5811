-- The two steps that every job takes, each as one round trip and one transaction. pg-boss's part is
-- done by pg-boss's own statements: the functions boss_fetch, boss_complete and boss_insert_thumbnail
-- hold their text as the installed pg-boss makes it, and are written anew at every migration.

-- Claims the job whose turn it is: lane, job, budget and cooldown together, or nothing at all.
-- Nothing to claim: lane is null, and wait_ms says when to ask again (null: nothing waits).
CREATE FUNCTION claim_run(p_hold_ms integer)
RETURNS TABLE (claim text, boss_job_id uuid, retry_count integer, attempts integer, wait_ms double precision, waits_for text, waited_ms double precision,
  job_id bigint, activity_id bigint, athlete_id bigint, reason text, force boolean, aspect text, version integer,
  needs_call boolean, known_athlete boolean, known_activity boolean, access_token text, token_expires_at timestamptz, scope text,
  athlete_state text, started_at text, requested_at timestamptz)
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
  v_turn record;
  v_job record;
  v_run record;
  v_budget rate_budget;
  v_opens timestamptz;
  v_now timestamptz;
BEGIN
  SELECT * INTO v_turn FROM next_turn();
  IF v_turn.lane IS NULL THEN
    RETURN QUERY SELECT 'wait', NULL::uuid, NULL::integer, NULL::integer,
      CASE WHEN v_turn.wake_at < 'infinity' THEN greatest(0, ceil(extract(epoch FROM v_turn.wake_at - sync_clock()) * 1000))::float8 END,
      v_turn.waits_for, NULL::float8, NULL::bigint, NULL::bigint, NULL::bigint, NULL, NULL::boolean, NULL, NULL::integer,
      NULL::boolean, NULL::boolean, NULL::boolean, NULL, NULL::timestamptz, NULL, NULL, NULL, NULL::timestamptz;
    RETURN;
  END IF;
  -- Under the budget's lock from here on: what was open at the look may have closed meanwhile.
  PERFORM pg_advisory_xact_lock(hashtextextended('activity-sync rate budget', 0));
  v_now := sync_clock();
  SELECT * INTO v_budget FROM rate_budget;
  v_budget := budget_at(v_budget, v_now);
  v_opens := budget_opens_at(v_budget, reason_of_lane(v_turn.lane), v_now);
  IF v_opens > v_now AND v_turn.lane <> lane_of(0, 'webhook') THEN
    RETURN QUERY SELECT 'wait', NULL::uuid, NULL::integer, NULL::integer, ceil(extract(epoch FROM v_opens - v_now) * 1000)::float8,
      'budget', NULL::float8, NULL::bigint, NULL::bigint, NULL::bigint, NULL, NULL::boolean, NULL, NULL::integer,
      NULL::boolean, NULL::boolean, NULL::boolean, NULL, NULL::timestamptz, NULL, NULL, NULL, NULL::timestamptz;
    RETURN;
  END IF;
  SELECT * INTO v_job FROM boss_fetch(v_turn.lane, v_turn.lane);
  IF v_job.o_id IS NULL THEN
    PERFORM rest_lane(v_turn.lane);
    RETURN QUERY SELECT 'empty', NULL::uuid, NULL::integer, NULL::integer, NULL::float8,
      'turn', NULL::float8, NULL::bigint, NULL::bigint, NULL::bigint, NULL, NULL::boolean, NULL, NULL::integer,
      NULL::boolean, NULL::boolean, NULL::boolean, NULL, NULL::timestamptz, NULL, NULL, NULL, NULL::timestamptz;
    RETURN;
  END IF;
  SELECT * INTO v_run FROM begin_run(v_job.o_id, v_turn.lane, p_hold_ms, v_budget, v_now);
  RETURN QUERY SELECT CASE WHEN v_run.job_id IS NULL THEN 'orphan' ELSE 'run' END, v_job.o_id,
    v_job.o_retry_count, 5 - v_job.o_retry_limit + v_job.o_retry_count, NULL::float8, NULL,
    greatest(0, extract(epoch FROM v_run.started_at - greatest(v_job.o_start_after, v_run.requested_at)) * 1000)::float8,
    v_run.job_id, v_run.activity_id, v_run.athlete_id, v_run.reason, v_run.force, v_run.aspect, v_run.version,
    v_run.needs_call, v_run.known_athlete, v_run.known_activity, v_run.access_token, v_run.token_expires_at, v_run.scope,
    v_run.athlete_state, v_run.started_at::text, v_run.requested_at;
END
$$;

-- A plan made while the tables were empty must not scan them once they are full.
ALTER FUNCTION claim_run(integer) SET enable_seqscan = off;
ALTER FUNCTION claim_run(integer) SET enable_bitmapscan = off;
ALTER FUNCTION claim_run(integer) SET enable_sort = off;

-- Ends a run whose activity was fetched: the activity, its thumbnail job and the fetch job's completion.
-- Returns 'stored'; 'tombstone' when the activity was deleted meanwhile and is
-- not stored; 'moved' when requests came after the run began: nothing is changed, and the caller takes
-- the long way. Raises SY001 when the claim was lost.
CREATE FUNCTION store_run(p_run jsonb, p_detail text)
RETURNS text LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
  r record;
  v_settled text;
  v_affected bigint;
  v_stored boolean;
BEGIN
  SELECT * INTO r FROM jsonb_to_record(p_run) AS x (
    "jobId" bigint, version integer, "bossJobId" uuid, "retryCount" integer, "startedAt" timestamptz, "cooldownMs" integer, "answeredAgoMs" integer,
    "activityId" bigint, "athleteId" bigint, name text, "sportType" text, "startDate" timestamptz, timezone text,
    "distanceM" double precision, "movingTimeS" integer, "elapsedTimeS" integer, "elevationGainM" double precision, private boolean, polyline text);
  v_settled := settle_run(r."jobId", r.version, 'stored', r."athleteId", r."cooldownMs", r."answeredAgoMs");
  IF v_settled = 'moved' THEN
    RETURN 'moved';
  END IF;
  IF v_settled = 'settled' THEN
    v_affected := boss_complete('activity-fetch', ARRAY[r."bossJobId"], NULL, ARRAY[r."bossJobId"::text || ':' || r."retryCount"::text]);
  END IF;
  IF v_settled = 'gone' OR v_affected <> 1 THEN
    RAISE EXCEPTION 'the run of job % lost its claim', r."jobId" USING ERRCODE = 'SY001';
  END IF;
  v_stored := save_activity(r."activityId", r."athleteId", r.name, r."sportType", r."startDate", r.timezone, r."distanceM",
    r."movingTimeS", r."elapsedTimeS", r."elevationGainM", r.private, r.polyline, p_detail::jsonb, r."startedAt");
  IF v_stored THEN
    PERFORM boss_insert_thumbnail(jsonb_build_array(jsonb_build_object(
      'singletonKey', r."activityId"::text, 'data', jsonb_build_object('activityId', r."activityId"::text)))::text);
    -- Nobody needs to be woken while earlier ones wait: a worker that is awake asks again by itself.
    IF NOT EXISTS (SELECT FROM pgboss.job t WHERE t.name = 'thumbnail' AND t.state < 'active' AND NOT t.blocked
        AND t.start_after <= sync_now() AND t.singleton_key <> r."activityId"::text) THEN
      PERFORM pg_notify('activity_sync', 'thumbnail');
    END IF;
  END IF;
  RETURN CASE WHEN v_stored THEN 'stored' ELSE 'tombstone' END;
END
$$;

ALTER FUNCTION store_run(jsonb, text) SET enable_seqscan = off;
ALTER FUNCTION store_run(jsonb, text) SET enable_bitmapscan = off;

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
