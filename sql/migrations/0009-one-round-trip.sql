-- The steps that every job takes, each as one round trip and one transaction for several jobs.

-- Accepts webhook events of activities for good: ledger row, request and job together, at most one event
-- for each activity; the n-th element of every array is of the n-th event. p_owners: their athletes, each
-- once. An exact repeat is counted in the ledger and changes nothing else.
CREATE FUNCTION accept_events(p_owners bigint[], p_activities bigint[], p_athletes bigint[], p_aspects event_aspect[], p_times timestamptz[],
  p_subscriptions bigint[], p_updates jsonb[])
RETURNS SETOF fetch_result LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
  v_requests fetch_request[];
  v_repeats bigint[];
  v_stale bigint[];
  r fetch_result;
BEGIN
  PERFORM lock_schedule(p_owners);
  WITH ledger AS (
    INSERT INTO webhook_event AS w (object_type, object_id, aspect_type, owner_id, subscription_id, event_time, updates)
    SELECT 'activity', e.activity_id, e.aspect, e.athlete_id, e.subscription_id, e.event_time, coalesce(e.updates, '{}')
    FROM unnest(p_activities, p_athletes, p_aspects, p_times, p_subscriptions, p_updates)
      AS e (activity_id, athlete_id, aspect, event_time, subscription_id, updates)
    ORDER BY e.activity_id
    ON CONFLICT ON CONSTRAINT webhook_event_once DO UPDATE SET deliveries = w.deliveries + 1, last_received_at = sync_now()
    RETURNING w.object_id, w.owner_id, w.aspect_type, w.event_time, w.deliveries
  )
  SELECT array_agg(ROW(l.object_id, l.owner_id, 'webhook', l.aspect_type = 'update', l.aspect_type, l.event_time)::fetch_request)
      FILTER (WHERE l.deliveries = 1),
    array_agg(l.object_id) FILTER (WHERE l.deliveries > 1)
  INTO v_requests, v_repeats FROM ledger l;

  IF v_requests IS NOT NULL THEN
    FOR r IN SELECT * FROM add_requests(v_requests) LOOP
      IF r.result = 'stale' THEN
        v_stale := v_stale || r.activity_id;
      END IF;
      RETURN NEXT r;
    END LOOP;
  END IF;
  IF v_stale IS NOT NULL THEN
    UPDATE webhook_event w SET result = 'stale'
    FROM unnest(p_activities, p_aspects, p_times) AS e (activity_id, aspect, event_time)
    WHERE e.activity_id = ANY (v_stale) AND w.object_id = ANY (v_stale)
      AND w.object_type = 'activity' AND w.object_id = e.activity_id AND w.aspect_type = e.aspect AND w.event_time = e.event_time;
  END IF;
  IF v_repeats IS NOT NULL THEN
    RETURN QUERY
    SELECT e.activity_id, e.athlete_id, j.id, 'duplicate'
    FROM unnest(p_activities, p_athletes) AS e (activity_id, athlete_id)
    LEFT JOIN LATERAL (SELECT j.id FROM activity_fetch_job j WHERE j.activity_id = e.activity_id OFFSET 0) j ON true
    WHERE e.activity_id = ANY (v_repeats);
  END IF;
END
$$;

-- Planned once, for every number of events; a plan made while the tables were empty must not scan them once
-- they are full. Joins tempt it to: hence "= ANY" beside them, or OFFSET 0, which keeps a lookup a lookup.
ALTER FUNCTION accept_events SET plan_cache_mode = force_generic_plan;
ALTER FUNCTION accept_events SET enable_seqscan = off;
ALTER FUNCTION accept_events SET enable_hashjoin = off;
ALTER FUNCTION accept_events SET enable_mergejoin = off;
ALTER FUNCTION accept_events SET enable_material = off;
ALTER FUNCTION accept_events SET enable_bitmapscan = off;
ALTER FUNCTION accept_events SET jit = off;

-- Claims up to p_most jobs whose turn it is: lane, job, budget and cooldown together, or nothing at all. A
-- row for each: claim is 'run', or 'orphan' for a job whose request is gone. When fewer could be claimed, a
-- last row says when to ask again ('wait'; wait_ms null: nothing waits), or to do so at once ('again').
-- p_hold_ms: how long an athlete is kept from another call unless end_cooldown sets it exactly before.
-- p_mark: the caller's own mark, by which lost_runs finds what was claimed.
CREATE FUNCTION claim_runs(p_most integer, p_hold_ms integer, p_mark uuid)
RETURNS TABLE (claim text, wait_ms double precision, waits_for text, boss_job_id uuid, retry_count integer, attempts integer,
  job_id bigint, activity_id bigint, athlete_id bigint, reason text, force boolean, aspect event_aspect, version integer,
  needs_call boolean, known_athlete boolean, known_activity boolean, access_token text, token_expires_at timestamptz, scope text,
  athlete_state text, started_at text, requested_at timestamptz, waited_ms double precision)
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
  b rate_budget;
  v_now timestamptz;
  v_turn record;
  v_job record;
  v_done boolean;
  v_spent boolean := false;
  v_claimed integer := 0;
BEGIN
  -- Under the budget's lock to the end: from here on nothing waits for another, so nobody waits long for this.
  b := lock_budget();
  v_now := sync_clock();
  b := budget_at(b, v_now);
  WHILE v_claimed < p_most LOOP
    v_turn := next_turn(b, v_now);
    IF v_turn.lane IS NULL THEN
      claim := 'wait'; waits_for := v_turn.waits_for;
      wait_ms := CASE WHEN v_turn.wake_at < 'infinity' THEN greatest(0, ceil(extract(epoch FROM v_turn.wake_at - sync_clock()) * 1000)) END;
      EXIT;
    END IF;
    v_job := boss_fetch(v_turn.lane, v_turn.lane);
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
    WHERE j.activity_id = v_job.o_activity_id AND j.boss_job_id = v_job.o_id;
    claim := CASE WHEN FOUND THEN 'run' ELSE 'orphan' END;
    needs_call := claim = 'run' AND aspect <> 'delete' AND known_athlete AND athlete_state = 'healthy' AND (force OR NOT known_activity);
    started_at := v_now;
    waited_ms := greatest(0, extract(epoch FROM v_now - greatest(v_job.o_start_after, requested_at)) * 1000);
    IF needs_call THEN
      b := spend_call(b, v_turn.reason, v_now);
      v_spent := true;
    END IF;
    v_done := turn_lane(v_turn.lane, v_now, CASE WHEN needs_call THEN v_now + p_hold_ms * interval '1 ms' ELSE '-infinity' END, p_mark, boss_job_id);
    RETURN NEXT;
  END LOOP;
  IF v_spent THEN
    v_done := save_budget(b);
  END IF;
  IF v_claimed < p_most THEN
    RETURN NEXT;
  END IF;
END
$$;

-- A plan made while the tables were empty must not scan them once they are full, and is good for every
-- number of jobs.
ALTER FUNCTION claim_runs(integer, integer, uuid) SET enable_seqscan = off;
ALTER FUNCTION claim_runs(integer, integer, uuid) SET enable_hashjoin = off;
ALTER FUNCTION claim_runs(integer, integer, uuid) SET enable_mergejoin = off;
ALTER FUNCTION claim_runs(integer, integer, uuid) SET enable_material = off;
ALTER FUNCTION claim_runs(integer, integer, uuid) SET jit = off; -- PostgreSQL 15 to 17 take a scan that is "off" for a costly one, and compile it each time
ALTER FUNCTION claim_runs(integer, integer, uuid) SET enable_bitmapscan = off;
ALTER FUNCTION claim_runs(integer, integer, uuid) SET enable_sort = off;
ALTER FUNCTION claim_runs(integer, integer, uuid) SET plan_cache_mode = force_generic_plan;

-- The runs that were claimed under these marks, as far as nobody has taken them back. Waits for a claim that
-- is still under way.
CREATE FUNCTION lost_runs(p_marks uuid[])
RETURNS TABLE (boss_job_id uuid, retry_count integer, attempts integer, job_id bigint, started_at text, version integer)
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
  PERFORM lock_budget();
  RETURN QUERY
    SELECT f.boss_job_id, f.retry_count, f.attempts, r.id, f.started_on::text,
      r.version - coalesce(r.asked_during = run_name(f.boss_job_id, f.retry_count), false)::int
    FROM athlete_schedule s
      CROSS JOIN unnest(s.claimed_jobs) job
      JOIN fetch_queue() f ON f.boss_job_id = job AND f.running
      JOIN activity_fetch_job r ON r.activity_id = f.activity_id AND r.boss_job_id = f.boss_job_id
    WHERE s.claim_mark = ANY (p_marks);
END
$$;

-- A run with what was fetched, as store_runs takes it; n is its number in the batch, from 1.
CREATE TYPE stored_run AS (
  n integer,
  "jobId" bigint, version integer, "bossJobId" uuid, "retryCount" integer, "startedAt" timestamptz, "cooldownMs" integer, "answeredAgoMs" integer,
  "activityId" bigint, "athleteId" bigint, name text, "sportType" text, "startDate" timestamptz, timezone text, "distanceM" double precision,
  "movingTimeS" integer, "elapsedTimeS" integer, "elevationGainM" double precision, private boolean);

-- Thumbnail jobs whose time has come, first in line first. The order is the one of pg-boss's index of waiting
-- jobs: no other may be read for this, however small.
CREATE FUNCTION due_thumbnails() RETURNS TABLE (id uuid) LANGUAGE sql STABLE
AS $$
  SELECT t.id FROM pgboss.job t
  WHERE t.name = 'thumbnail' AND t.state < 'active' AND NOT t.blocked AND t.start_after <= sync_now()
  ORDER BY t.priority DESC, t.created_on, t.start_after
$$;

-- Ends runs whose activities were fetched, at most one for each activity: the activities, their thumbnail
-- jobs and the fetch jobs' completion together. p_runs: stored_run as JSON, p_details: the provider's
-- answers in the runs' order. Returns for each, by its number:
--   stored
--   tombstone  the activity was deleted meanwhile; the job ends, nothing is stored
--   moved      requests came after the run began: nothing is changed, and the caller takes the long way
--   lost       the job was taken back or deleted meanwhile: nothing is changed
CREATE FUNCTION store_runs(p_runs jsonb, p_details json) RETURNS text[] LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
  v_runs stored_run[];
  v_run stored_run;
  v_activities bigint[];
  v_jobs bigint[];
  v_settled bigint[];
  v_claimed uuid[];
  v_claims text[];
  v_completed uuid[];
  v_moved bigint[];
  v_stored bigint[];
  v_buried boolean;
  v_sent boolean;
  v_asleep boolean;
  v_results text[] := array_fill('lost'::text, ARRAY[jsonb_array_length(p_runs)]);
BEGIN
  -- In the order in which everyone locks athletes. One who was erased meanwhile has no row, and no jobs.
  SELECT array_agg(x.run), array_agg((x.run)."activityId"), array_agg((x.run)."jobId")
  INTO v_runs, v_activities, v_jobs
  FROM (SELECT run, run."athleteId" AS athlete_id FROM jsonb_populate_recordset(NULL::stored_run, p_runs) run ORDER BY run."athleteId") x,
    LATERAL (SELECT FROM athlete_schedule s WHERE s.athlete_id = x.athlete_id FOR UPDATE) locked;
  IF v_runs IS NULL THEN
    RETURN v_results;
  END IF;
  -- Ends the open requests that nobody changed meanwhile; a notification waits, or has been counted. One that
  -- another run has ended keeps its outcome. (Not "outcome IS NULL": an index would find all open requests.)
  WITH settled AS (
    UPDATE activity_fetch_job j SET outcome = 'stored' FROM unnest(v_runs) r
    WHERE j.id = ANY (v_jobs) AND j.id = r."jobId" AND j.version = r.version AND j.boss_job_id = r."bossJobId" AND coalesce(j.outcome::text, 'open') = 'open'
    RETURNING j.id, r."bossJobId" AS boss_job_id, r."bossJobId"::text || ':' || r."retryCount" AS claim,
      EXISTS (SELECT FROM activity_tombstone t WHERE t.activity_id = j.activity_id OFFSET 0) AS buried
  )
  SELECT array_agg(id), array_agg(boss_job_id), array_agg(claim), bool_or(buried)
  INTO v_settled, v_claimed, v_claims, v_buried FROM settled;
  v_completed := coalesce(boss_complete('activity-fetch', v_claimed, NULL, v_claims), '{}');

  IF cardinality(v_completed) < cardinality(v_runs) THEN
    -- Open again: pg-boss has given these claims to another.
    UPDATE activity_fetch_job j SET outcome = NULL WHERE j.id = ANY (v_settled) AND j.boss_job_id <> ALL (v_completed);
    SELECT array_agg(j.id) INTO v_moved
    FROM unnest(v_runs) r JOIN activity_fetch_job j ON j.id = ANY (v_jobs) AND j.id = r."jobId" AND j.version <> r.version;
  END IF;
  FOREACH v_run IN ARRAY v_runs LOOP
    IF v_run."bossJobId" = ANY (v_completed) THEN
      PERFORM end_cooldown(v_run."athleteId", v_run."bossJobId", v_run."cooldownMs", v_run."answeredAgoMs");
    END IF;
  END LOOP;
  IF v_buried THEN
    DELETE FROM activity_tombstone t USING unnest(v_runs) r
    WHERE t.activity_id = ANY (v_activities) AND t.activity_id = r."activityId"
      AND t.deleted_at <= r."startedAt" AND r."bossJobId" = ANY (v_completed);
  END IF;
  WITH saved AS (
    INSERT INTO activity AS a (activity_id, athlete_id, name, sport_type, start_date, timezone, distance_m,
      moving_time_s, elapsed_time_s, elevation_gain_m, private, detail, fetched_at)
    SELECT r."activityId", r."athleteId", r.name, r."sportType", r."startDate", r.timezone, r."distanceM",
      r."movingTimeS", r."elapsedTimeS", r."elevationGainM", r.private, d.detail, sync_now()
    FROM unnest(v_runs) r JOIN json_array_elements(p_details) WITH ORDINALITY AS d (detail, n) ON d.n = r.n
    WHERE r."bossJobId" = ANY (v_completed)
      AND NOT EXISTS (SELECT FROM activity_tombstone t WHERE t.activity_id = r."activityId" AND t.deleted_at > r."startedAt" OFFSET 0)
    ON CONFLICT (activity_id) DO UPDATE SET
      athlete_id = excluded.athlete_id, name = excluded.name, sport_type = excluded.sport_type, start_date = excluded.start_date,
      timezone = excluded.timezone, distance_m = excluded.distance_m, moving_time_s = excluded.moving_time_s,
      elapsed_time_s = excluded.elapsed_time_s, elevation_gain_m = excluded.elevation_gain_m, private = excluded.private,
      detail = excluded.detail, fetched_at = excluded.fetched_at
    RETURNING a.activity_id
  )
  -- Nobody needs to be woken while earlier ones wait: a worker that is awake asks again by itself.
  SELECT array_agg(activity_id),
    boss_insert_thumbnail('[' || string_agg('{"singletonKey":"' || activity_id || '","data":{"activityId":"' || activity_id || '"}}', ',') || ']'),
    (SELECT t.id FROM due_thumbnails() t LIMIT 1) IS NULL
  INTO v_stored, v_sent, v_asleep FROM saved;
  IF v_stored IS NOT NULL AND v_asleep THEN
    PERFORM pg_notify('activity_sync', 'thumbnail');
  END IF;
  FOREACH v_run IN ARRAY v_runs LOOP
    v_results[v_run.n] := CASE
      WHEN v_run."jobId" = ANY (v_moved) THEN 'moved'
      WHEN v_run."bossJobId" <> ALL (v_completed) THEN 'lost'
      WHEN v_run."activityId" = ANY (v_stored) THEN 'stored'
      ELSE 'tombstone' END;
  END LOOP;
  RETURN v_results;
END
$$;

ALTER FUNCTION store_runs(jsonb, json) SET enable_seqscan = off;
ALTER FUNCTION store_runs(jsonb, json) SET enable_sort = off;
ALTER FUNCTION store_runs(jsonb, json) SET enable_hashjoin = off;
ALTER FUNCTION store_runs(jsonb, json) SET enable_mergejoin = off;
ALTER FUNCTION store_runs(jsonb, json) SET enable_material = off;
ALTER FUNCTION store_runs(jsonb, json) SET enable_bitmapscan = off;
ALTER FUNCTION store_runs(jsonb, json) SET jit = off;
ALTER FUNCTION store_runs(jsonb, json) SET plan_cache_mode = force_generic_plan;

-- Stores or replaces an activity. A tombstone set after the run began wins, since the answer may be
-- older than the deletion: returns false, and nothing is stored.
CREATE FUNCTION save_activity(p_activity_id bigint, p_athlete_id bigint, p_name text, p_sport_type text, p_start_date timestamptz, p_timezone text,
  p_distance_m double precision, p_moving_time_s integer, p_elapsed_time_s integer, p_elevation_gain_m double precision,
  p_private boolean, p_detail json, p_run_started_at timestamptz)
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
    moving_time_s, elapsed_time_s, elevation_gain_m, private, detail, fetched_at)
  VALUES (p_activity_id, p_athlete_id, p_name, p_sport_type, p_start_date, p_timezone, p_distance_m,
    p_moving_time_s, p_elapsed_time_s, p_elevation_gain_m, p_private, p_detail, sync_now())
  ON CONFLICT (activity_id) DO UPDATE SET
    athlete_id = excluded.athlete_id, name = excluded.name, sport_type = excluded.sport_type, start_date = excluded.start_date,
    timezone = excluded.timezone, distance_m = excluded.distance_m, moving_time_s = excluded.moving_time_s,
    elapsed_time_s = excluded.elapsed_time_s, elevation_gain_m = excluded.elevation_gain_m, private = excluded.private,
    detail = excluded.detail, fetched_at = excluded.fetched_at;
  RETURN true;
END
$$;
