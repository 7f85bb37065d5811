-- Lanes: where the jobs of pg-boss's queue 'activity-fetch' wait, whose turn it is, and when it is again.

-- Lanes are values of pg-boss's priority: four to an athlete, one for each reason.
CREATE FUNCTION lane_of(p_lane integer, p_reason text) RETURNS integer LANGUAGE sql IMMUTABLE
AS $$ SELECT p_lane * 4 + CASE p_reason WHEN 'webhook' THEN 1 WHEN 'manual' THEN 2 ELSE 3 END $$;

CREATE FUNCTION reason_of_lane(p_priority integer) RETURNS text LANGUAGE sql IMMUTABLE
AS $$ SELECT CASE p_priority % 4 WHEN 1 THEN 'webhook' WHEN 2 THEN 'manual' ELSE 'polling' END $$;

CREATE FUNCTION stronger_reason(a text, b text) RETURNS text LANGUAGE sql IMMUTABLE
AS $$ SELECT CASE WHEN 'webhook' IN (a, b) THEN 'webhook' WHEN 'manual' IN (a, b) THEN 'manual' ELSE 'polling' END $$;

-- pg-boss's rows of the queue. Inlined by the planner, so the partition's own indexes serve; the body
-- is a string, so that the views over it leave pg-boss free to change its tables.
CREATE FUNCTION fetch_queue()
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
    -- A job that was put back is a new one with as many retries as were left.
    5 - j.retry_limit + j.retry_count + CASE WHEN j.state = 'retry' THEN 1 ELSE 0 END,
    5,
    j.start_after,
    j.started_on,
    greatest(j.created_on, j.started_on, j.completed_on),
    -- The second is pg-boss's own word on a run that it takes for dead.
    coalesce(j.output->>'message', j.output #>> '{value,message}', j.data->>'error')
  FROM pgboss.job j
  WHERE j.name = 'activity-fetch'
$$;

-- Names a run by its claim: pg-boss's job and how often it was claimed before.
CREATE FUNCTION run_name(p_boss_job_id uuid, p_retry_count integer) RETURNS text LANGUAGE sql IMMUTABLE
AS $$ SELECT p_boss_job_id || ':' || p_retry_count $$;

-- Says that a lane may have a job due at p_at.
CREATE FUNCTION wake_lane(p_lane integer, p_at timestamptz) RETURNS void LANGUAGE sql VOLATILE
AS $$
  UPDATE athlete_schedule s SET
    webhook_due_at = CASE p_lane % 4 WHEN 1 THEN least(s.webhook_due_at, greatest(p_at, s.cooldown_until)) ELSE s.webhook_due_at END,
    manual_due_at = CASE p_lane % 4 WHEN 2 THEN least(s.manual_due_at, greatest(p_at, s.cooldown_until)) ELSE s.manual_due_at END,
    polling_due_at = CASE p_lane % 4 WHEN 3 THEN least(s.polling_due_at, greatest(p_at, s.cooldown_until)) ELSE s.polling_due_at END
  WHERE s.lane = p_lane / 4
$$;

-- The lane that a request belongs into as it stands now.
CREATE FUNCTION lane_of_job(p_job_id bigint) RETURNS integer LANGUAGE sql STABLE
AS $$
  SELECT CASE WHEN j.aspect = 'delete' THEN lane_of(0, 'webhook') ELSE lane_of(s.lane, j.reason) END
  FROM activity_fetch_job j, LATERAL (SELECT s.lane FROM athlete_schedule s WHERE s.athlete_id = j.athlete_id OFFSET 0) s
  WHERE j.id = p_job_id
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

-- When the jobs that wait in a lane may start, oldest first. Sorted as pg-boss's index of waiting jobs is: no
-- other may be walked for this, whatever a planner thinks of a queue that it has not counted yet.
CREATE FUNCTION waiting_in_lane(p_lane integer) RETURNS TABLE (start_after timestamptz) LANGUAGE sql STABLE
AS $$
  SELECT j.start_after FROM pgboss.job j
  WHERE j.name = 'activity-fetch' AND j.state < 'active' AND NOT j.blocked AND j.priority = p_lane
  ORDER BY j.priority DESC, j.created_on, j.start_after
$$;

-- A lane's next turn after p_job was claimed from it at p_at, under p_mark: the athlete is kept from another call until
-- p_until (-infinity where the provider is not called), and the lane is due again when more waits in it.
CREATE FUNCTION turn_lane(p_lane integer, p_at timestamptz, p_until timestamptz, p_mark uuid, p_job uuid) RETURNS boolean LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
  UPDATE athlete_schedule s SET
    claim_mark = p_mark,
    claimed_jobs = CASE WHEN s.claim_mark = p_mark THEN s.claimed_jobs END || p_job,
    cooldown_until = greatest(s.cooldown_until, p_until),
    webhook_due_at = CASE WHEN p_lane % 4 = 1 THEN w.due_at WHEN s.webhook_due_at IS NOT NULL THEN greatest(s.webhook_due_at, p_until) END,
    manual_due_at = CASE WHEN p_lane % 4 = 2 THEN w.due_at WHEN s.manual_due_at IS NOT NULL THEN greatest(s.manual_due_at, p_until) END,
    polling_due_at = CASE WHEN p_lane % 4 = 3 THEN w.due_at WHEN s.polling_due_at IS NOT NULL THEN greatest(s.polling_due_at, p_until) END
  FROM (SELECT CASE WHEN (SELECT start_after FROM waiting_in_lane(p_lane) LIMIT 1) IS NOT NULL THEN greatest(p_at, p_until) END AS due_at OFFSET 0) w
  WHERE s.lane = p_lane / 4;
  RETURN FOUND;
END
$$;

-- A lane that was due and had nothing to claim: due again with its next job, or empty.
CREATE FUNCTION rest_lane(p_lane integer) RETURNS void LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
  v_next timestamptz;
BEGIN
  SELECT min(w.start_after) INTO v_next FROM waiting_in_lane(p_lane) w;
  -- One that was due and could not be claimed is held by another, for a moment or for long: others come first.
  IF v_next <= sync_now() THEN
    v_next := sync_clock() + interval '25 ms';
  END IF;
  UPDATE athlete_schedule s SET
    webhook_due_at = CASE WHEN p_lane % 4 = 1 THEN v_next ELSE s.webhook_due_at END,
    manual_due_at = CASE WHEN p_lane % 4 = 2 THEN v_next ELSE s.manual_due_at END,
    polling_due_at = CASE WHEN p_lane % 4 = 3 THEN v_next ELSE s.polling_due_at END
  WHERE s.lane = p_lane / 4;
END
$$;

-- Ends the hold of p_job's claim: the cooldown is set exactly, p_cooldown_ms after the provider last answered,
-- p_ago_ms ago. A run that outlived its hold may find another one that keeps the athlete now: it can only lengthen that.
CREATE FUNCTION end_cooldown(p_athlete_id bigint, p_job uuid, p_cooldown_ms integer, p_ago_ms integer) RETURNS void LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
  v_until timestamptz := sync_clock() + (p_cooldown_ms - p_ago_ms) * interval '1 ms';
BEGIN
  UPDATE athlete_schedule s SET
    cooldown_until = v_until,
    webhook_due_at = CASE WHEN s.webhook_due_at = s.cooldown_until THEN v_until ELSE s.webhook_due_at END,
    manual_due_at = CASE WHEN s.manual_due_at = s.cooldown_until THEN v_until ELSE s.manual_due_at END,
    polling_due_at = CASE WHEN s.polling_due_at = s.cooldown_until THEN v_until ELSE s.polling_due_at END
  WHERE s.athlete_id = p_athlete_id AND (p_job = ANY (s.claimed_jobs) OR s.cooldown_until < v_until);
END
$$;

-- Ends the cooldowns that are longer than any can be: a clock began them that was ahead and has been set back, and their
-- athletes would wait until it gets there again. p_longest_ms: for how long an athlete is kept at most; an hour more is
-- left to replicas that were told another one. Returns how many it ended.
CREATE FUNCTION end_lost_cooldowns(p_longest_ms integer) RETURNS integer LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
  v_ended integer;
BEGIN
  UPDATE athlete_schedule s SET
    cooldown_until = '-infinity',
    webhook_due_at = CASE WHEN s.webhook_due_at = s.cooldown_until THEN sync_now() ELSE s.webhook_due_at END,
    manual_due_at = CASE WHEN s.manual_due_at = s.cooldown_until THEN sync_now() ELSE s.manual_due_at END,
    polling_due_at = CASE WHEN s.polling_due_at = s.cooldown_until THEN sync_now() ELSE s.polling_due_at END
  WHERE s.athlete_id IN (
    SELECT h.athlete_id FROM athlete_schedule h
    WHERE h.cooldown_until > sync_now() + p_longest_ms * interval '1 ms' + interval '1 hour'
    FOR UPDATE SKIP LOCKED);
  GET DIAGNOSTICS v_ended = ROW_COUNT;
  RETURN v_ended;
END
$$;

-- Wakes every lane that has waiting jobs and no due time: the net under everything above. Walks the
-- lanes, not the jobs, and so not in the order of the athletes: it waits for none, one who is locked comes next time.
-- Returns how many it woke; more than none says that something went past us.
CREATE FUNCTION wake_forgotten_lanes(p_longest_ms integer) RETURNS integer LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
  v_lane integer := 2147483647;
  v_woken integer := end_lost_cooldowns(p_longest_ms);
BEGIN
  LOOP
    SELECT max(f.lane) INTO v_lane FROM fetch_queue() f WHERE f.waiting AND f.lane < v_lane;
    EXIT WHEN v_lane IS NULL;
    PERFORM FROM athlete_schedule s
    WHERE s.lane = v_lane / 4
      AND CASE v_lane % 4 WHEN 1 THEN s.webhook_due_at WHEN 2 THEN s.manual_due_at ELSE s.polling_due_at END IS NULL
    FOR UPDATE SKIP LOCKED;
    CONTINUE WHEN NOT FOUND;
    UPDATE athlete_schedule s SET
      webhook_due_at = CASE v_lane % 4 WHEN 1 THEN coalesce(s.webhook_due_at, greatest(sync_now(), s.cooldown_until)) ELSE s.webhook_due_at END,
      manual_due_at = CASE v_lane % 4 WHEN 2 THEN coalesce(s.manual_due_at, greatest(sync_now(), s.cooldown_until)) ELSE s.manual_due_at END,
      polling_due_at = CASE v_lane % 4 WHEN 3 THEN coalesce(s.polling_due_at, greatest(sync_now(), s.cooldown_until)) ELSE s.polling_due_at END
    WHERE s.lane = v_lane / 4;
    v_woken := v_woken + 1;
  END LOOP;
  IF v_woken > 0 THEN
    PERFORM pg_notify('activity_sync', 'fetch');
  END IF;
  RETURN v_woken;
END
$$;
