-- The way of a request into pg-boss's queue 'activity-fetch' and out of it. These functions read
-- pg-boss's tables and never write them: what pg-boss must do is returned to the caller, who does it
-- through pg-boss's own interface in the same transaction.

-- Lanes are values of pg-boss's priority: four to an athlete, one for each reason.
CREATE FUNCTION lane_of(p_lane integer, p_reason text) RETURNS integer LANGUAGE sql IMMUTABLE
AS $$ SELECT p_lane * 4 + CASE p_reason WHEN 'webhook' THEN 1 WHEN 'manual' THEN 2 ELSE 3 END $$;

CREATE FUNCTION reason_of_lane(p_priority integer) RETURNS text LANGUAGE sql IMMUTABLE
AS $$ SELECT CASE p_priority % 4 WHEN 1 THEN 'webhook' WHEN 2 THEN 'manual' ELSE 'polling' END $$;

CREATE FUNCTION stronger_reason(a text, b text) RETURNS text LANGUAGE sql IMMUTABLE
AS $$ SELECT CASE WHEN 'webhook' IN (a, b) THEN 'webhook' WHEN 'manual' IN (a, b) THEN 'manual' ELSE 'polling' END $$;

-- pg-boss's rows of the queue. Inlined by the planner, so the partition's own indexes serve; the body
-- is a string, so that the view below leaves pg-boss free to change its tables.
CREATE FUNCTION fetch_queue()
RETURNS TABLE (boss_job_id uuid, waiting boolean, running boolean, completed boolean, ended boolean, lane integer, retry_count integer,
  attempts integer, max_attempts integer, start_after timestamptz, started_on timestamptz, changed_on timestamptz, error text)
LANGUAGE sql STABLE
AS $$
  SELECT j.id,
    j.state < 'active' AND NOT j.blocked,
    j.state = 'active' AND j.group_id IS NOT NULL,
    j.state = 'completed',
    j.state > 'completed',
    j.priority,
    j.retry_count,
    -- A job that was put back is a new one with as many retries as were left.
    5 - j.retry_limit + j.retry_count + CASE WHEN j.state = 'retry' THEN 1 ELSE 0 END,
    5,
    j.start_after,
    j.started_on,
    greatest(j.created_on, j.started_on, j.completed_on),
    coalesce(j.output->>'message', j.data->>'error')
  FROM pgboss.job j
  WHERE j.name = 'activity-fetch'
$$;

-- Asks for fetches. p_requests: [{activityId, athleteId, reason, force, aspect, eventTime}], at most
-- one for each activity. Coalesces with what stands, by these rules:
--   pending  joined: the stronger reason, force once set, the newest event
--   working  one more run follows, for a webhook event or a forced request
--   finished opened again: same id, attempts 0
--   an event older than the newest one heard changes nothing ('stale')
-- Returns a row for each request, and in boss_action what pg-boss must do:
--   insert (boss_job_id into lane), reopen (the same, after deleting old_boss_job_id),
--   move (boss_job_id to lane), nothing
CREATE FUNCTION request_fetch(p_requests jsonb)
RETURNS TABLE (job_id bigint, activity_id bigint, athlete_id bigint, result text,
  boss_action text, boss_job_id uuid, old_boss_job_id uuid, lane integer)
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
  v_now timestamptz := sync_now();
  v_new bigint[];
  q record;
  r activity_fetch_job;
  v_state text;
  v_athlete_lane integer;
  v_old_lane integer;
  v_athletes integer;
  v_locked integer;
BEGIN
  -- The schedule's rows first: a claim of the same athlete waits until this commits, or has committed
  -- before, so a job never lands in a lane that was just found empty. Everyone locks in this order:
  -- athletes by id, then athlete 0, then requests, then pg-boss's jobs.
  INSERT INTO athlete_schedule (athlete_id)
  SELECT DISTINCT x."athleteId" FROM jsonb_to_recordset(p_requests) AS x ("athleteId" bigint)
  WHERE NOT EXISTS (SELECT FROM athlete_schedule s WHERE s.athlete_id = x."athleteId")
  ORDER BY 1
  ON CONFLICT DO NOTHING;

  SELECT count(DISTINCT x."athleteId") INTO v_athletes FROM jsonb_to_recordset(p_requests) AS x ("athleteId" bigint);
  PERFORM FROM athlete_schedule s
  WHERE s.athlete_id IN (SELECT x."athleteId" FROM jsonb_to_recordset(p_requests) AS x ("athleteId" bigint))
  ORDER BY s.athlete_id
  FOR UPDATE;
  GET DIAGNOSTICS v_locked = ROW_COUNT;
  IF v_locked < v_athletes THEN
    RAISE EXCEPTION 'an athlete was erased while a request for them was being accepted' USING ERRCODE = 'serialization_failure';
  END IF;
  IF p_requests @> '[{"aspect": "delete"}]' THEN
    PERFORM FROM athlete_schedule s WHERE s.athlete_id = 0 FOR UPDATE;
  END IF;

  WITH x AS (
    SELECT * FROM jsonb_to_recordset(p_requests)
      AS x ("activityId" bigint, "athleteId" bigint, reason text, force boolean, aspect text, "eventTime" timestamptz)
  ), inserted AS (
    INSERT INTO activity_fetch_job (activity_id, athlete_id, reason, force, aspect, event_time, created_at, requested_at)
    SELECT "activityId", "athleteId", reason, force, coalesce(aspect, 'create'), "eventTime", v_now, v_now FROM x ORDER BY "activityId"
    ON CONFLICT ON CONSTRAINT activity_fetch_job_activity_once DO NOTHING
    RETURNING activity_id
  )
  SELECT coalesce(array_agg(activity_id), '{}') INTO v_new FROM inserted;

  RETURN QUERY
  SELECT j.id, j.activity_id, j.athlete_id, 'accepted', 'insert', j.boss_job_id, NULL::uuid,
    CASE WHEN j.aspect = 'delete' THEN lane_of(0, 'webhook') ELSE lane_of(s.lane, j.reason) END
  FROM activity_fetch_job j JOIN athlete_schedule s ON s.athlete_id = j.athlete_id
  WHERE j.activity_id = ANY (v_new);

  UPDATE athlete_schedule s SET
    webhook_due_at = CASE WHEN n.webhook THEN least(s.webhook_due_at, greatest(v_now, s.cooldown_until)) ELSE s.webhook_due_at END,
    manual_due_at = CASE WHEN n.manual THEN least(s.manual_due_at, greatest(v_now, s.cooldown_until)) ELSE s.manual_due_at END,
    polling_due_at = CASE WHEN n.polling THEN least(s.polling_due_at, greatest(v_now, s.cooldown_until)) ELSE s.polling_due_at END
  FROM (
    SELECT CASE WHEN j.aspect = 'delete' THEN 0 ELSE j.athlete_id END AS athlete_id,
      bool_or(j.reason = 'webhook') AS webhook, bool_or(j.reason = 'manual') AS manual, bool_or(j.reason = 'polling') AS polling
    FROM activity_fetch_job j WHERE j.activity_id = ANY (v_new) GROUP BY 1
  ) n
  WHERE s.athlete_id = n.athlete_id
    AND (n.webhook AND coalesce(s.webhook_due_at, 'infinity') > greatest(v_now, s.cooldown_until)
      OR n.manual AND coalesce(s.manual_due_at, 'infinity') > greatest(v_now, s.cooldown_until)
      OR n.polling AND coalesce(s.polling_due_at, 'infinity') > greatest(v_now, s.cooldown_until));

  FOR q IN
    SELECT * FROM jsonb_to_recordset(p_requests)
      AS x ("activityId" bigint, "athleteId" bigint, reason text, force boolean, aspect text, "eventTime" timestamptz)
    WHERE "activityId" <> ALL (v_new) ORDER BY "activityId"
  LOOP
    -- Locked before pg-boss's row is read, so that a run that settles meanwhile is seen as settled.
    SELECT * INTO r FROM activity_fetch_job j WHERE j.activity_id = q."activityId" FOR UPDATE;
    IF NOT FOUND THEN -- deleted between the two statements; the next delivery or sweep asks again
      RAISE EXCEPTION 'the job of activity % was deleted while a request for it was being accepted', q."activityId"
        USING ERRCODE = 'serialization_failure';
    END IF;
    job_id := r.id; activity_id := r.activity_id; athlete_id := r.athlete_id;
    result := 'accepted'; boss_action := 'nothing'; boss_job_id := r.boss_job_id; old_boss_job_id := NULL; lane := NULL;

    IF q."eventTime" < r.event_time OR (q."eventTime" = r.event_time AND r.aspect = 'delete' AND q.aspect <> 'delete') THEN
      result := 'stale';
      RETURN NEXT;
      CONTINUE;
    END IF;

    SELECT CASE WHEN f.waiting THEN 'waiting' WHEN f.running THEN 'running' ELSE 'finished' END, f.lane
    INTO v_state, v_old_lane FROM fetch_queue() f WHERE f.boss_job_id = r.boss_job_id;
    IF v_state IS NULL THEN
      v_state := 'finished'; v_old_lane := NULL;
    END IF;

    IF v_state = 'finished' THEN
      old_boss_job_id := r.boss_job_id;
      boss_action := 'reopen';
      r.boss_job_id := gen_random_uuid();
      r.reason := q.reason; r.force := q.force; r.outcome := NULL;
      r.aspect := coalesce(q.aspect, 'create');
      boss_job_id := r.boss_job_id;
    ELSIF v_state = 'running' THEN
      IF q."eventTime" IS NULL AND NOT q.force THEN
        result := 'joined';
        RETURN NEXT;
        CONTINUE;
      END IF;
      r.reason := stronger_reason(r.reason, q.reason); r.force := true;
    ELSE
      result := CASE WHEN q."eventTime" IS NULL THEN 'joined' ELSE 'accepted' END;
      r.reason := stronger_reason(r.reason, q.reason); r.force := r.force OR q.force;
    END IF;
    IF q."eventTime" IS NOT NULL THEN
      r.aspect := q.aspect; r.event_time := q."eventTime";
    END IF;

    UPDATE activity_fetch_job j SET reason = r.reason, force = r.force, aspect = r.aspect, event_time = r.event_time,
      outcome = r.outcome, boss_job_id = r.boss_job_id, version = j.version + 1, requested_at = v_now
    WHERE j.id = r.id;

    IF v_state <> 'running' THEN
      SELECT CASE WHEN r.aspect = 'delete' THEN 0 ELSE s.lane END INTO v_athlete_lane
      FROM athlete_schedule s WHERE s.athlete_id = r.athlete_id;
      lane := lane_of(v_athlete_lane, CASE WHEN r.aspect = 'delete' THEN 'webhook' ELSE r.reason END);
      IF v_state = 'waiting' AND lane <> v_old_lane THEN
        boss_action := 'move';
      END IF;
      IF boss_action <> 'nothing' THEN
        PERFORM wake_lane(lane, v_now);
      END IF;
    END IF;
    RETURN NEXT;
  END LOOP;
END
$$;

-- Says that a lane may have a job due at p_at.
CREATE FUNCTION wake_lane(p_lane integer, p_at timestamptz) RETURNS void LANGUAGE sql VOLATILE
AS $$
  UPDATE athlete_schedule s SET
    webhook_due_at = CASE p_lane % 4 WHEN 1 THEN least(s.webhook_due_at, greatest(p_at, s.cooldown_until)) ELSE s.webhook_due_at END,
    manual_due_at = CASE p_lane % 4 WHEN 2 THEN least(s.manual_due_at, greatest(p_at, s.cooldown_until)) ELSE s.manual_due_at END,
    polling_due_at = CASE p_lane % 4 WHEN 3 THEN least(s.polling_due_at, greatest(p_at, s.cooldown_until)) ELSE s.polling_due_at END
  WHERE s.lane = p_lane / 4
$$;

-- What became of a request, as request_fetch returns it.
CREATE TYPE fetch_action AS (job_id bigint, activity_id bigint, athlete_id bigint, result text,
  boss_action text, boss_job_id uuid, old_boss_job_id uuid, lane integer);

-- Accepts webhook events of activities: ledger row and request together. p_events:
-- [{objectId, ownerId, aspect, eventTime, subscriptionId, updates}], at most one for each activity.
-- An exact repeat is counted in the ledger and changes nothing else. Wakes the workers once.
CREATE FUNCTION accept_events(p_events jsonb) RETURNS SETOF fetch_action LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
  v_requests jsonb;
  v_actions fetch_action[];
BEGIN
  WITH e AS (
    SELECT * FROM jsonb_to_recordset(p_events)
      AS e ("objectId" bigint, "ownerId" bigint, aspect text, "eventTime" timestamptz, "subscriptionId" bigint, updates jsonb)
  ), ledger AS (
    INSERT INTO webhook_event AS w (object_type, object_id, aspect_type, owner_id, subscription_id, event_time, updates)
    SELECT 'activity', "objectId", aspect, "ownerId", "subscriptionId", "eventTime", coalesce(updates, '{}') FROM e ORDER BY "objectId"
    ON CONFLICT ON CONSTRAINT webhook_event_once DO UPDATE SET deliveries = w.deliveries + 1, last_received_at = sync_now()
    RETURNING object_id, deliveries = 1 AS fresh
  )
  SELECT coalesce(jsonb_agg(jsonb_build_object('activityId', "objectId", 'athleteId', "ownerId", 'reason', 'webhook',
    'force', aspect = 'update', 'aspect', aspect, 'eventTime', "eventTime")), '[]')
  INTO v_requests FROM e JOIN ledger ON object_id = "objectId" WHERE fresh;

  IF v_requests <> '[]' THEN
    SELECT array_agg(ROW(f.*)::fetch_action) INTO v_actions FROM request_fetch(v_requests) f;
    IF EXISTS (SELECT FROM unnest(v_actions) a WHERE a.result = 'stale') THEN
      UPDATE webhook_event w SET result = 'stale'
      FROM jsonb_to_recordset(p_events) AS e ("objectId" bigint, aspect text, "eventTime" timestamptz)
      JOIN unnest(v_actions) a ON a.activity_id = e."objectId" AND a.result = 'stale'
      WHERE w.object_type = 'activity' AND w.object_id = e."objectId" AND w.aspect_type = e.aspect AND w.event_time = e."eventTime";
    END IF;
    PERFORM pg_notify('activity_sync', 'fetch');
    RETURN QUERY SELECT a.* FROM unnest(v_actions) a;
  END IF;

  IF jsonb_array_length(v_requests) < jsonb_array_length(p_events) THEN
    RETURN QUERY
    SELECT j.id, e."objectId", e."ownerId", 'duplicate', 'nothing', NULL::uuid, NULL::uuid, NULL::integer
    FROM jsonb_to_recordset(p_events) AS e ("objectId" bigint, "ownerId" bigint)
    LEFT JOIN activity_fetch_job j ON j.activity_id = e."objectId"
    WHERE e."objectId" <> ALL (coalesce((SELECT array_agg(a.activity_id) FROM unnest(v_actions) a), '{}'));
  END IF;
END
$$;

-- Whose turn is it at p_at, with the budget b? Locks the athlete's row of the schedule and returns the lane
-- to claim from, or (lane null) when to ask again and for what to wait. Webhooks before manual before
-- polling; within a reason, whoever has been due for longest. Nothing is written.
CREATE FUNCTION next_turn(b rate_budget, p_at timestamptz, OUT lane integer, OUT reason text, OUT wake_at timestamptz, OUT waits_for text)
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
  v_opens timestamptz;
  v_due timestamptz;
BEGIN
  PERFORM FROM athlete_schedule s WHERE s.athlete_id = 0 AND s.webhook_due_at <= p_at FOR UPDATE SKIP LOCKED;
  IF FOUND THEN
    lane := lane_of(0, 'webhook');
    RETURN;
  END IF;
  wake_at := 'infinity'; waits_for := 'turn';
  FOREACH reason IN ARRAY ARRAY['webhook', 'manual', 'polling'] LOOP
    v_opens := budget_opens_at(b, reason, p_at);
    IF v_opens <= p_at THEN
      CASE reason
        WHEN 'webhook' THEN
          SELECT lane_of(s.lane, 'webhook') INTO lane FROM athlete_schedule s
          WHERE s.webhook_due_at <= p_at AND s.athlete_id <> 0 ORDER BY s.webhook_due_at LIMIT 1 FOR UPDATE SKIP LOCKED;
        WHEN 'manual' THEN
          SELECT lane_of(s.lane, 'manual') INTO lane FROM athlete_schedule s
          WHERE s.manual_due_at <= p_at ORDER BY s.manual_due_at LIMIT 1 FOR UPDATE SKIP LOCKED;
        ELSE
          SELECT lane_of(s.lane, 'polling') INTO lane FROM athlete_schedule s
          WHERE s.polling_due_at <= p_at ORDER BY s.polling_due_at LIMIT 1 FOR UPDATE SKIP LOCKED;
      END CASE;
      IF lane IS NOT NULL THEN
        RETURN;
      END IF;
    END IF;
    CASE reason
      WHEN 'webhook' THEN SELECT min(s.webhook_due_at) INTO v_due FROM athlete_schedule s WHERE s.webhook_due_at IS NOT NULL;
      WHEN 'manual' THEN SELECT min(s.manual_due_at) INTO v_due FROM athlete_schedule s WHERE s.manual_due_at IS NOT NULL;
      ELSE SELECT min(s.polling_due_at) INTO v_due FROM athlete_schedule s WHERE s.polling_due_at IS NOT NULL;
    END CASE;
    -- Due and open, yet not taken: another worker holds that athlete's row for the moment.
    IF v_due IS NOT NULL AND greatest(v_due, v_opens, p_at + interval '25 ms') < wake_at THEN
      wake_at := greatest(v_due, v_opens, p_at + interval '25 ms');
      waits_for := CASE WHEN v_opens > p_at AND v_opens >= v_due THEN 'budget' WHEN v_due > p_at THEN 'cooldown' ELSE 'turn' END;
    END IF;
  END LOOP;
END
$$;

-- A lane's next turn after a run was claimed from it at p_at: the athlete is kept from another call until
-- p_until (-infinity where the provider is not called), and the lane is due again when more waits in it.
CREATE FUNCTION turn_lane(p_lane integer, p_at timestamptz, p_until timestamptz) RETURNS void LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
  v_next timestamptz := CASE WHEN EXISTS (SELECT FROM fetch_queue() f WHERE f.waiting AND f.lane = p_lane) THEN greatest(p_at, p_until) END;
BEGIN
  UPDATE athlete_schedule s SET
    cooldown_until = greatest(s.cooldown_until, p_until),
    webhook_due_at = CASE WHEN p_lane % 4 = 1 THEN v_next WHEN s.webhook_due_at IS NOT NULL THEN greatest(s.webhook_due_at, p_until) END,
    manual_due_at = CASE WHEN p_lane % 4 = 2 THEN v_next WHEN s.manual_due_at IS NOT NULL THEN greatest(s.manual_due_at, p_until) END,
    polling_due_at = CASE WHEN p_lane % 4 = 3 THEN v_next WHEN s.polling_due_at IS NOT NULL THEN greatest(s.polling_due_at, p_until) END
  WHERE s.lane = p_lane / 4;
END
$$;

-- A lane that was due and had nothing to claim: due again with its next job, or empty.
CREATE FUNCTION rest_lane(p_lane integer) RETURNS void LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
  v_next timestamptz;
BEGIN
  SELECT min(f.start_after) INTO v_next FROM fetch_queue() f WHERE f.waiting AND f.lane = p_lane;
  UPDATE athlete_schedule s SET
    webhook_due_at = CASE WHEN p_lane % 4 = 1 THEN v_next ELSE s.webhook_due_at END,
    manual_due_at = CASE WHEN p_lane % 4 = 2 THEN v_next ELSE s.manual_due_at END,
    polling_due_at = CASE WHEN p_lane % 4 = 3 THEN v_next ELSE s.polling_due_at END
  WHERE s.lane = p_lane / 4;
END
$$;

-- Sets the cooldown exactly: p_cooldown_ms after the provider last answered, p_ago_ms ago.
CREATE FUNCTION end_cooldown(p_athlete_id bigint, p_cooldown_ms integer, p_ago_ms integer) RETURNS void LANGUAGE sql VOLATILE
AS $$
  UPDATE athlete_schedule s SET
    cooldown_until = x.until,
    webhook_due_at = CASE WHEN s.webhook_due_at = s.cooldown_until THEN x.until ELSE s.webhook_due_at END,
    manual_due_at = CASE WHEN s.manual_due_at = s.cooldown_until THEN x.until ELSE s.manual_due_at END,
    polling_due_at = CASE WHEN s.polling_due_at = s.cooldown_until THEN x.until ELSE s.polling_due_at END
  FROM (SELECT sync_clock() + (p_cooldown_ms - p_ago_ms) * interval '1 ms' AS until) x
  WHERE s.athlete_id = p_athlete_id
$$;

-- Wakes every lane that has waiting jobs and no due time: the net under everything above. Walks the
-- lanes, not the jobs. Returns how many it woke; more than none says that something went past us.
CREATE FUNCTION wake_forgotten_lanes() RETURNS integer LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
  v_lane integer := 2147483647;
  v_woken integer := 0;
BEGIN
  LOOP
    SELECT max(f.lane) INTO v_lane FROM fetch_queue() f WHERE f.waiting AND f.lane < v_lane;
    EXIT WHEN v_lane IS NULL;
    UPDATE athlete_schedule s SET
      webhook_due_at = CASE v_lane % 4 WHEN 1 THEN coalesce(s.webhook_due_at, greatest(sync_now(), s.cooldown_until)) ELSE s.webhook_due_at END,
      manual_due_at = CASE v_lane % 4 WHEN 2 THEN coalesce(s.manual_due_at, greatest(sync_now(), s.cooldown_until)) ELSE s.manual_due_at END,
      polling_due_at = CASE v_lane % 4 WHEN 3 THEN coalesce(s.polling_due_at, greatest(sync_now(), s.cooldown_until)) ELSE s.polling_due_at END
    WHERE s.lane = v_lane / 4
      AND CASE v_lane % 4 WHEN 1 THEN s.webhook_due_at WHEN 2 THEN s.manual_due_at ELSE s.polling_due_at END IS NULL;
    IF FOUND THEN
      v_woken := v_woken + 1;
    END IF;
  END LOOP;
  IF v_woken > 0 THEN
    PERFORM pg_notify('activity_sync', 'fetch');
  END IF;
  RETURN v_woken;
END
$$;

-- The lane that a request belongs into as it stands now.
CREATE FUNCTION lane_of_job(p_job_id bigint) RETURNS integer LANGUAGE sql STABLE
AS $$
  SELECT CASE WHEN j.aspect = 'delete' THEN lane_of(0, 'webhook') ELSE lane_of(s.lane, j.reason) END
  FROM activity_fetch_job j JOIN athlete_schedule s ON s.athlete_id = j.athlete_id
  WHERE j.id = p_job_id
$$;

-- Ends a run's request with its outcome. Locks the request, so that a notification waits or has been
-- counted. Returns 'settled'; 'moved' when requests came after the run began (nothing is changed, one
-- more run must follow); 'gone' when the request was deleted. p_ago_ms: how long ago the provider
-- answered; null when it was not called.
CREATE FUNCTION settle_run(p_job_id bigint, p_version integer, p_outcome text, p_athlete_id bigint, p_cooldown_ms integer, p_ago_ms integer)
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
    PERFORM end_cooldown(p_athlete_id, p_cooldown_ms, p_ago_ms);
  END IF;
  IF v_version <> p_version THEN
    RETURN 'moved';
  END IF;
  UPDATE activity_fetch_job SET outcome = p_outcome WHERE id = p_job_id;
  RETURN 'settled';
END
$$;

-- Opens finished requests again as they were asked for. Rows as request_fetch returns them.
CREATE FUNCTION reopen_jobs(p_job_ids bigint[])
RETURNS TABLE (job_id bigint, activity_id bigint, athlete_id bigint, result text,
  boss_action text, boss_job_id uuid, old_boss_job_id uuid, lane integer)
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
  r record;
BEGIN
  PERFORM FROM athlete_schedule s
  WHERE s.athlete_id IN (SELECT j.athlete_id FROM activity_fetch_job j WHERE j.id = ANY (p_job_ids))
  ORDER BY s.athlete_id
  FOR UPDATE;
  IF EXISTS (SELECT FROM activity_fetch_job j WHERE j.id = ANY (p_job_ids) AND j.aspect = 'delete') THEN
    PERFORM FROM athlete_schedule s WHERE s.athlete_id = 0 FOR UPDATE;
  END IF;
  FOR r IN
    SELECT j.id, j.boss_job_id AS old_id FROM activity_fetch_job j
    WHERE j.id = ANY (p_job_ids) AND j.outcome IS NOT NULL ORDER BY j.activity_id FOR UPDATE
  LOOP
    UPDATE activity_fetch_job j SET outcome = NULL, boss_job_id = gen_random_uuid(), version = j.version + 1, requested_at = sync_now()
    WHERE j.id = r.id
    RETURNING j.id, j.activity_id, j.athlete_id, j.boss_job_id INTO job_id, activity_id, athlete_id, boss_job_id;
    lane := lane_of_job(r.id);
    PERFORM wake_lane(lane, sync_now());
    result := 'accepted'; boss_action := 'reopen'; old_boss_job_id := r.old_id;
    RETURN NEXT;
  END LOOP;
END
$$;
