-- Which lane a worker claims from next.

-- The next lane by priority, by sync_clock(): deletions, then webhook, manual and polling jobs as far as the budget is
-- open for them and no operator has paused them; within a reason the lane that has been due for longest. Locks the
-- athlete's row and returns the lane, or (lane null) when to try again and what for. Writes nothing. An athlete whom
-- another transaction has locked is skipped.
CREATE OR REPLACE FUNCTION next_lane(OUT lane integer, OUT reason text, OUT wait_ms double precision, OUT waits_for text)
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
  v_now timestamptz := sync_clock();
  v_retry timestamptz := v_now + interval '25 ms';
  v_opens timestamptz;
  v_due timestamptz;
  v_wake timestamptz := 'infinity';
  v_paused text[] := ARRAY(SELECT p.reason FROM fetch_pause p);
  b rate_budget;
BEGIN
  SELECT * INTO b FROM rate_budget;
  b := budget_at(b, v_now);
  FOREACH reason IN ARRAY ARRAY['delete', 'webhook', 'manual', 'polling'] LOOP
    -- A deletion needs no call, and continues.
    CONTINUE WHEN reason <> 'delete' AND v_paused && ARRAY[reason, 'all'];
    v_opens := CASE WHEN reason = 'delete' THEN '-infinity' ELSE budget_opens_at(b, reason, v_now) END;
    IF v_opens <= v_now THEN
      -- Only athletes called within one cooldown are skipped here, not all that wait.
      SELECT l.lane INTO lane FROM lane l JOIN athlete_schedule s ON s.athlete_id = l.athlete_id
      WHERE l.reason = next_lane.reason AND l.due_at <= v_now AND (l.reason = 'delete' OR s.cooldown_until <= v_now)
      ORDER BY l.due_at LIMIT 1 FOR UPDATE OF s SKIP LOCKED;
      IF FOUND THEN
        RETURN;
      END IF;
      -- Those due now are in cooldown, or locked at the moment; the others come later.
      SELECT least(
        (SELECT min(greatest(s.cooldown_until, v_retry)) FROM lane l JOIN athlete_schedule s ON s.athlete_id = l.athlete_id
         WHERE l.reason = next_lane.reason AND l.due_at <= v_now),
        (SELECT min(l.due_at) FROM lane l WHERE l.reason = next_lane.reason AND l.due_at > v_now)) INTO v_due;
      IF v_due < v_wake THEN
        v_wake := v_due;
        waits_for := CASE WHEN v_due > v_retry THEN 'cooldown' ELSE 'turn' END;
      END IF;
    ELSIF v_opens < v_wake AND EXISTS (SELECT FROM lane l WHERE l.reason = next_lane.reason AND l.due_at IS NOT NULL) THEN
      v_wake := v_opens;
      waits_for := 'budget';
    END IF;
  END LOOP;
  lane := NULL; reason := NULL;
  wait_ms := CASE WHEN v_wake < 'infinity' THEN greatest(0, ceil(extract(epoch FROM v_wake - sync_clock()) * 1000)) END;
END
$$;

-- Wakes every lane that has waiting jobs and no due time: the safety net for every writer of due times. Walks the lanes,
-- not the jobs. Returns how many it woke; more than none says that something was missed.
CREATE OR REPLACE FUNCTION wake_forgotten_lanes() RETURNS integer LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
  v_lane integer := 2147483647;
  v_woken integer := 0;
BEGIN
  LOOP
    SELECT max(f.lane) INTO v_lane FROM fetch_queue() f WHERE f.waiting AND f.lane < v_lane;
    EXIT WHEN v_lane IS NULL;
    UPDATE lane l SET due_at = sync_now()
    WHERE l.lane = (SELECT n.lane FROM lane n WHERE n.lane = v_lane AND n.due_at IS NULL FOR UPDATE SKIP LOCKED);
    IF FOUND THEN
      v_woken := v_woken + 1;
    END IF;
  END LOOP;
  RETURN v_woken;
END
$$;
