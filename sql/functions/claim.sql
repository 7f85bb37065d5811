-- Begins the run of a job that pg-boss has just handed out from the lane p_lane, in the same transaction: one call is
-- taken out of the budget and the athlete is held for p_hold_ms where the provider must be called, the lane is due again
-- when more waits in it, and the claim names its process. No row: the job's request no longer exists. opens_at not null: the
-- budget has closed in the meantime, and the caller rolls back.
CREATE OR REPLACE FUNCTION begin_run(p_job uuid, p_lane integer, p_process integer, p_hold_ms integer)
RETURNS TABLE (opens_at timestamptz, job_id bigint, activity_id bigint, athlete_id bigint, reason text, force boolean, aspect event_aspect,
  signed boolean, version integer, needs_call boolean, known_athlete boolean, known_activity boolean, access_token text,
  token_expires_at timestamptz, scope text, athlete_state text, started_at text, requested_at timestamptz, waited_ms double precision)
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
  v_now timestamptz := sync_clock();
BEGIN
  SELECT r.id, r.activity_id, r.athlete_id, r.reason, r.force, r.aspect, r.signed, r.version, r.requested_at,
    a.athlete_id IS NOT NULL, a.access_token, a.token_expires_at, a.scope, a.state,
    EXISTS (SELECT FROM activity k WHERE k.activity_id = r.activity_id),
    greatest(0, extract(epoch FROM v_now - greatest(f.start_after, r.requested_at)) * 1000)
  INTO job_id, activity_id, athlete_id, reason, force, aspect, signed, version, requested_at,
    known_athlete, access_token, token_expires_at, scope, athlete_state, known_activity, waited_ms
  FROM fetch_queue() f
  JOIN activity_fetch_job r ON r.activity_id = f.activity_id AND r.boss_job_id = f.boss_job_id
  LEFT JOIN athlete a ON a.athlete_id = r.athlete_id
  WHERE f.boss_job_id = p_job;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  started_at := v_now;
  -- A deletion that its sender did not sign is confirmed where there is something to lose: a stored activity, or a
  -- fetch that was requested before.
  needs_call := known_athlete AND athlete_state = 'healthy'
    AND CASE WHEN aspect = 'delete' THEN NOT signed AND (known_activity OR version > 1) ELSE force OR NOT known_activity END;
  IF needs_call THEN
    UPDATE athlete_schedule s SET cooldown_until = greatest(s.cooldown_until, v_now + p_hold_ms * interval '1 ms'), held_by = p_job
    WHERE s.athlete_id = begin_run.athlete_id;
  END IF;
  UPDATE lane l SET due_at = CASE WHEN EXISTS (SELECT FROM waiting_in_lane(p_lane)) THEN v_now END WHERE l.lane = p_lane;
  INSERT INTO job_claim (boss_job_id, queue, process_id, version) VALUES (p_job, 'activity-fetch', p_process, version)
  ON CONFLICT (boss_job_id) DO UPDATE SET process_id = excluded.process_id, version = excluded.version;
  -- Last, since every replica waits for the budget's lock until this transaction ends.
  IF needs_call THEN
    opens_at := take_budget(reason);
  END IF;
  RETURN NEXT;
END
$$;
