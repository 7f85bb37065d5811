-- The way of a request into pg-boss's queue 'activity-fetch' and out of it. pg-boss's part is done by
-- pg-boss's own statements: the functions boss_fetch, boss_complete, boss_delete, boss_update_fetch,
-- boss_insert_fetch and boss_insert_thumbnail hold their text as the installed pg-boss makes it, and are
-- written anew at every migration.

-- A request for a fetch, and what became of it: 'accepted' (a run of its own), 'joined' (part of one that
-- stands), 'stale' (older than what was heard) or 'duplicate' (heard before).
CREATE TYPE fetch_request AS (activity_id bigint, athlete_id bigint, reason text, force boolean, aspect event_aspect, event_time timestamptz);
CREATE TYPE fetch_result AS (activity_id bigint, athlete_id bigint, job_id bigint, result text);

-- Locks the athletes' rows of the schedule, each named once; rows that are missing are made. A claim of the
-- same athlete waits until this commits, or has committed before, so a job never lands in a lane that was
-- just found empty. Everyone locks in this order: athletes by id, then the ledger, athlete 0, requests and
-- pg-boss's jobs. Only two that make rows of new athletes at once may meet crosswise; one is run again.
CREATE FUNCTION lock_schedule(p_athletes bigint[]) RETURNS void LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
  v_locked integer;
BEGIN
  SELECT count(*) INTO v_locked
  FROM (SELECT FROM athlete_schedule s WHERE s.athlete_id = ANY (p_athletes) ORDER BY s.athlete_id FOR UPDATE) locked;
  IF v_locked < cardinality(p_athletes) THEN
    INSERT INTO athlete_schedule (athlete_id) SELECT a FROM unnest(p_athletes) a ORDER BY a ON CONFLICT DO NOTHING;
    PERFORM FROM athlete_schedule s WHERE s.athlete_id = ANY (p_athletes) ORDER BY s.athlete_id FOR UPDATE;
    GET DIAGNOSTICS v_locked = ROW_COUNT;
    IF v_locked < cardinality(p_athletes) THEN
      RAISE EXCEPTION 'an athlete was erased while a request for them was being accepted' USING ERRCODE = 'serialization_failure';
    END IF;
  END IF;
END
$$;

-- A job as an element of what boss_insert_fetch takes, as JSON text: nothing in it needs to be escaped.
CREATE FUNCTION boss_job(p_id uuid, p_lane integer, p_activity_id bigint, p_athlete_id bigint) RETURNS text LANGUAGE sql STABLE
AS $$
  SELECT '{"id":"' || p_id || '","priority":' || p_lane || ',"singletonKey":"' || p_activity_id || '","groupId":"' || p_athlete_id
    || '","data":{"activityId":"' || p_activity_id || '"}}'
$$;

-- Where an event stands among others: when the provider says, but one that it dates more than a day ahead counts as of
-- now, or as of the newest one known: every later one would be stale for ever.
CREATE FUNCTION event_order(p_event_time timestamptz, p_newest timestamptz, p_now timestamptz) RETURNS timestamptz LANGUAGE sql STABLE
AS $$ SELECT CASE WHEN p_event_time > p_now + interval '1 day' THEN greatest(p_newest, date_trunc('second', p_now)) ELSE p_event_time END $$;

-- Asks for fetches of athletes whose schedule is locked, at most one for each activity. Coalesces with
-- what stands, by these rules:
--   pending  joined: the stronger reason, force once set, the newest event
--   working  one more run follows, for a webhook event or a forced request
--   finished opened again: same id, attempts 0
--   of another athlete  opened again for the one named now, unless the activity is stored for the other
--   an event older than the newest one heard changes nothing ('stale')
CREATE FUNCTION add_requests(p_requests fetch_request[]) RETURNS SETOF fetch_result LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
  v_now timestamptz := sync_now();
  v_deletes boolean := false;
  v_added fetch_result[];
  v_jobs text;
  v_newly_due integer[];
  q fetch_request;
BEGIN
  FOREACH q IN ARRAY p_requests LOOP
    v_deletes := v_deletes OR q.aspect IS NOT DISTINCT FROM 'delete';
  END LOOP;
  IF v_deletes THEN
    PERFORM FROM athlete_schedule s WHERE s.athlete_id = 0 FOR UPDATE;
  END IF;

  WITH added AS (
    INSERT INTO activity_fetch_job AS j (activity_id, athlete_id, reason, force, aspect, event_time, created_at, requested_at)
    SELECT r.activity_id, r.athlete_id, r.reason, r.force, coalesce(r.aspect, 'create'), event_order(r.event_time, NULL, v_now), v_now, v_now
    FROM unnest(p_requests) r ORDER BY r.activity_id
    ON CONFLICT ON CONSTRAINT activity_fetch_job_activity_once DO NOTHING
    RETURNING j.id, j.activity_id, j.athlete_id, j.boss_job_id,
      CASE WHEN j.aspect = 'delete' THEN 0 ELSE j.athlete_id END AS waits_with,
      CASE WHEN j.aspect = 'delete' THEN 'webhook' ELSE j.reason END AS waits_as
  )
  SELECT array_agg(ROW(a.activity_id, a.athlete_id, a.id, 'accepted')::fetch_result),
    '[' || string_agg(boss_job(a.boss_job_id, lane_of(s.lane, a.waits_as), a.activity_id, a.athlete_id), ',') || ']',
    array_agg(DISTINCT lane_of(s.lane, a.waits_as)) FILTER (WHERE
      coalesce(CASE a.waits_as WHEN 'webhook' THEN s.webhook_due_at WHEN 'manual' THEN s.manual_due_at ELSE s.polling_due_at END, 'infinity')
      > greatest(v_now, s.cooldown_until))
  INTO v_added, v_jobs, v_newly_due
  FROM added a, LATERAL (SELECT * FROM athlete_schedule s WHERE s.athlete_id = a.waits_with OFFSET 0) s;

  IF v_jobs IS NOT NULL THEN
    PERFORM boss_insert_fetch(v_jobs);
    RETURN QUERY SELECT * FROM unnest(v_added);
  END IF;
  IF v_newly_due IS NOT NULL THEN
    PERFORM wake_lane(l, v_now) FROM unnest(v_newly_due) l;
  END IF;
  -- Under load nobody needs to be woken for athletes who were due before, and a commit that notifies
  -- excludes every other one that does. A worker that just now stepped over the athlete locked here asks
  -- again a little later; a lone request spares it that.
  IF v_newly_due IS NOT NULL OR cardinality(p_requests) = 1 THEN
    PERFORM pg_notify('activity_sync', 'fetch');
  END IF;
  IF coalesce(cardinality(v_added), 0) < cardinality(p_requests) THEN
    FOR q IN
      SELECT r.* FROM unnest(p_requests) r
      WHERE NOT EXISTS (SELECT FROM unnest(v_added) a WHERE a.activity_id = r.activity_id)
      ORDER BY r.activity_id
    LOOP
      RETURN NEXT join_request(q);
    END LOOP;
  END IF;
END
$$;

-- A request for an activity that was asked for before.
CREATE FUNCTION join_request(q fetch_request) RETURNS fetch_result LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
  r activity_fetch_job;
  v_state text;
  v_old_lane integer;
  v_old_boss_job_id uuid;
  v_run text;
  v_lane integer;
  v_moves boolean;
BEGIN
  -- Locked before pg-boss's row is read, so that a run that settles meanwhile is seen as settled.
  SELECT * INTO r FROM activity_fetch_job j WHERE j.activity_id = q.activity_id FOR UPDATE;
  IF NOT FOUND THEN -- deleted between the two statements; the next delivery or sweep asks again
    RAISE EXCEPTION 'the job of activity % was deleted while a request for it was being accepted', q.activity_id
      USING ERRCODE = 'serialization_failure';
  END IF;
  q.event_time := event_order(q.event_time, r.event_time, sync_now());
  IF q.event_time < r.event_time OR (q.event_time = r.event_time AND r.aspect = 'delete' AND q.aspect <> 'delete') THEN
    RETURN ROW(r.activity_id, r.athlete_id, r.id, 'stale')::fetch_result;
  END IF;

  v_old_boss_job_id := r.boss_job_id;
  SELECT CASE WHEN f.waiting THEN 'waiting' WHEN f.running THEN 'running' ELSE 'finished' END, f.lane,
    CASE WHEN f.running THEN run_name(f.boss_job_id, f.retry_count) END
  INTO v_state, v_old_lane, v_run FROM fetch_queue() f WHERE f.boss_job_id = r.boss_job_id;
  v_state := coalesce(v_state, 'finished');
  -- Whoever asked first may have been wrong; what is stored came with the athlete's own token. A deletion needs none.
  v_moves := q.athlete_id <> r.athlete_id AND (v_state = 'finished' OR r.aspect <> 'delete' OR q.event_time IS NOT NULL)
    AND NOT EXISTS (SELECT FROM activity a WHERE a.activity_id = r.activity_id AND a.athlete_id = r.athlete_id);

  IF v_state = 'running' AND q.event_time IS NULL AND NOT q.force AND NOT v_moves THEN
    RETURN ROW(r.activity_id, r.athlete_id, r.id, 'joined')::fetch_result;
  END IF;
  r.athlete_id := CASE WHEN v_moves THEN q.athlete_id ELSE r.athlete_id END;
  IF v_moves OR v_state = 'finished' THEN
    r.boss_job_id := time_ordered_uuid();
  END IF;
  IF v_state = 'finished' THEN
    r.reason := q.reason; r.force := q.force; r.outcome := NULL;
    r.aspect := coalesce(q.aspect, 'create');
  ELSE
    r.reason := stronger_reason(r.reason, q.reason); r.force := r.force OR q.force OR v_state = 'running';
  END IF;
  IF q.event_time IS NOT NULL THEN
    r.aspect := q.aspect; r.event_time := q.event_time;
  END IF;
  UPDATE activity_fetch_job j SET athlete_id = r.athlete_id, reason = r.reason, force = r.force, aspect = r.aspect,
    event_time = r.event_time, outcome = r.outcome, boss_job_id = r.boss_job_id, version = j.version + 1, asked_during = v_run,
    requested_at = sync_now()
  WHERE j.id = r.id;

  v_lane := lane_of_job(r.id);
  IF r.boss_job_id <> v_old_boss_job_id THEN
    -- A run under way finds its claim lost.
    PERFORM boss_delete('activity-fetch', ARRAY[v_old_boss_job_id]);
    PERFORM boss_insert_fetch('[' || boss_job(r.boss_job_id, v_lane, r.activity_id, r.athlete_id) || ']');
    PERFORM wake_lane(v_lane, sync_now());
    PERFORM pg_notify('activity_sync', 'fetch');
  ELSIF v_state = 'waiting' AND v_lane <> v_old_lane THEN
    -- A deletion calls nobody, so it waits for no backoff.
    PERFORM boss_update_fetch((jsonb_build_object('id', r.boss_job_id, 'priority', v_lane)
      || CASE WHEN r.aspect = 'delete' THEN '{"startAfter": "0"}' ELSE '{}' END::jsonb)::text);
    PERFORM wake_lane(v_lane, sync_now());
    PERFORM pg_notify('activity_sync', 'fetch');
  END IF;
  RETURN ROW(r.activity_id, r.athlete_id, r.id, CASE WHEN v_state = 'waiting' AND q.event_time IS NULL AND NOT v_moves THEN 'joined' ELSE 'accepted' END)::fetch_result;
END
$$;

-- Asks for fetches: [{activityId, athleteId, reason, force, aspect, eventTime}], at most one for each
-- activity.
CREATE FUNCTION request_fetches(p_requests jsonb) RETURNS SETOF fetch_result LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
  v_requests fetch_request[];
BEGIN
  SELECT array_agg(ROW(x."activityId", x."athleteId", x.reason, x.force, x.aspect, x."eventTime")::fetch_request) INTO v_requests
  FROM jsonb_to_recordset(p_requests)
    AS x ("activityId" bigint, "athleteId" bigint, reason text, force boolean, aspect event_aspect, "eventTime" timestamptz);
  PERFORM lock_schedule(ARRAY(SELECT DISTINCT r.athlete_id FROM unnest(v_requests) r));
  RETURN QUERY SELECT * FROM add_requests(v_requests);
END
$$;

-- Ends a run's request with its outcome. Locks the request, so that a notification waits or has been
-- counted. Returns 'settled'; 'moved' when requests came after the run began (nothing is changed, one
-- more run must follow); 'gone' when the request was deleted. p_ago_ms: how long ago the provider
-- answered; null when it was not called.
CREATE FUNCTION settle_run(p_job_id bigint, p_boss_job_id uuid, p_version integer, p_outcome fetch_outcome, p_athlete_id bigint, p_cooldown_ms integer, p_ago_ms integer)
RETURNS text LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
  v_version integer;
BEGIN
  PERFORM FROM athlete_schedule s WHERE s.athlete_id = p_athlete_id FOR UPDATE;
  SELECT version INTO v_version FROM activity_fetch_job WHERE id = p_job_id FOR UPDATE;
  IF NOT FOUND THEN
    RETURN 'gone';
  END IF;
  IF p_ago_ms IS NOT NULL THEN
    PERFORM end_cooldown(p_athlete_id, p_boss_job_id, p_cooldown_ms, p_ago_ms);
  END IF;
  IF v_version <> p_version THEN
    RETURN 'moved';
  END IF;
  UPDATE activity_fetch_job SET outcome = p_outcome WHERE id = p_job_id;
  RETURN 'settled';
END
$$;

-- Opens finished requests again as they were asked for: same id, a new pg-boss job, attempts 0. Returns how
-- many, and wakes the workers once.
CREATE FUNCTION reopen_jobs(p_job_ids bigint[]) RETURNS integer LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
  r record;
  v_lane integer;
  v_jobs text[];
  v_outdated uuid[];
BEGIN
  PERFORM FROM athlete_schedule s
  WHERE s.athlete_id IN (SELECT j.athlete_id FROM activity_fetch_job j WHERE j.id = ANY (p_job_ids))
  ORDER BY s.athlete_id
  FOR UPDATE;
  IF EXISTS (SELECT FROM activity_fetch_job j WHERE j.id = ANY (p_job_ids) AND j.aspect = 'delete') THEN
    PERFORM FROM athlete_schedule s WHERE s.athlete_id = 0 FOR UPDATE;
  END IF;
  FOR r IN
    SELECT j.id, j.activity_id, j.athlete_id, j.boss_job_id AS old_id, time_ordered_uuid() AS new_id FROM activity_fetch_job j
    WHERE j.id = ANY (p_job_ids) AND j.outcome IS NOT NULL ORDER BY j.activity_id FOR UPDATE
  LOOP
    UPDATE activity_fetch_job j SET outcome = NULL, boss_job_id = r.new_id, version = j.version + 1, requested_at = sync_now()
    WHERE j.id = r.id;
    v_lane := lane_of_job(r.id);
    PERFORM wake_lane(v_lane, sync_now());
    v_outdated := v_outdated || r.old_id;
    v_jobs := v_jobs || boss_job(r.new_id, v_lane, r.activity_id, r.athlete_id);
  END LOOP;
  IF v_jobs IS NULL THEN
    RETURN 0;
  END IF;
  PERFORM boss_delete('activity-fetch', v_outdated);
  PERFORM boss_insert_fetch('[' || array_to_string(v_jobs, ',') || ']');
  PERFORM pg_notify('activity_sync', 'fetch');
  RETURN cardinality(v_jobs);
END
$$;
