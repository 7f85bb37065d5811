-- The token bucket: a window's calls, counted as the provider counts them.

-- The row as it stands at p_at: windows and days that have passed are rolled over. Reads nothing,
-- writes nothing. A reduced capacity recovers by a tenth of the configured one for each clean window.
CREATE FUNCTION budget_at(b rate_budget, p_at timestamptz) RETURNS rate_budget LANGUAGE plpgsql STABLE
AS $$
DECLARE
  v_interval_s numeric := b.interval_ms / 1000.0;
  v_start timestamptz := to_timestamp(floor(extract(epoch FROM p_at) / v_interval_s) * v_interval_s);
  v_passed numeric;
BEGIN
  IF v_start > b.window_start THEN
    v_passed := round(extract(epoch FROM v_start - b.window_start) / v_interval_s);
    IF b.reduced_capacity IS NOT NULL THEN
      b.reduced_capacity := least(b.capacity,
        b.reduced_capacity + ceil(b.capacity / 10.0) * (v_passed - CASE WHEN b.throttled THEN 1 ELSE 0 END));
      IF b.reduced_capacity >= b.capacity THEN
        b.reduced_capacity := NULL;
      END IF;
    END IF;
    b.previous_used := CASE WHEN v_passed = 1 THEN b.used ELSE 0 END;
    b.used := CASE WHEN v_passed = 1 THEN b.next_used ELSE 0 END;
    b.background_used := 0;
    b.next_used := 0;
    b.throttled := false;
    b.window_start := v_start;
  END IF;
  IF (p_at AT TIME ZONE 'UTC')::date > b.day THEN
    b.day := (p_at AT TIME ZONE 'UTC')::date;
    b.daily_used := 0;
  END IF;
  RETURN b;
END
$$;

-- Calls that the window allows now: the configured capacity, the provider's own figure, a reduction.
CREATE FUNCTION budget_capacity(b rate_budget) RETURNS integer LANGUAGE sql IMMUTABLE
AS $$ SELECT least(b.capacity, b.provider_limit, b.reduced_capacity) $$;

-- When the next call for this reason may be made; p_at or earlier means now. b must be rolled over.
--   * the last tenth of a window is kept for webhooks; manual and polling are spread over the window
--   * the provider's clock may differ from ours by guard_ms: a call near the turn of the window can
--     count in either one, so it needs room in both
CREATE FUNCTION budget_opens_at(b rate_budget, p_reason text, p_at timestamptz) RETURNS timestamptz LANGUAGE plpgsql STABLE
AS $$
DECLARE
  v_capacity integer := budget_capacity(b);
  v_background integer := greatest(floor(v_capacity * 0.9), least(v_capacity, 1));
  v_interval interval := b.interval_ms * interval '1 ms';
  v_guard interval := b.guard_ms * interval '1 ms';
  v_end timestamptz := b.window_start + v_interval;
  v_opens timestamptz := b.blocked_until;
BEGIN
  IF b.daily_limit IS NOT NULL AND b.daily_used >= b.daily_limit THEN
    v_opens := greatest(v_opens, ((b.day + 1)::timestamp AT TIME ZONE 'UTC') + v_guard);
  END IF;
  IF p_reason = 'webhook' THEN
    IF b.used >= v_capacity THEN
      v_opens := greatest(v_opens, v_end + v_guard);
    ELSIF p_at < b.window_start + v_guard AND b.previous_used >= v_capacity THEN
      v_opens := greatest(v_opens, b.window_start + v_guard);
    END IF;
  ELSIF b.used >= v_background THEN
    v_opens := greatest(v_opens, v_end + v_guard);
  ELSE
    v_opens := greatest(v_opens, b.window_start + v_guard,
      b.window_start + v_interval * (0.95 * b.background_used / v_background));
  END IF;
  RETURN v_opens;
END
$$;

-- Takes one call out of the budget. One round trip; a refusal writes nothing.
-- Returns null when granted, else when to ask again.
CREATE FUNCTION take_budget(p_reason text) RETURNS timestamptz LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
  b rate_budget;
  v_now timestamptz;
  v_opens timestamptz;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('activity-sync rate budget', 0));
  v_now := sync_clock();
  SELECT * INTO b FROM rate_budget;
  b := budget_at(b, v_now);
  v_opens := budget_opens_at(b, p_reason, v_now);
  IF v_opens > v_now THEN
    RETURN v_opens;
  END IF;
  PERFORM spend_budget(b, p_reason, v_now);
  RETURN NULL;
END
$$;

-- Counts a call that was found open under the lock. b must be rolled over. It reaches the provider up to
-- lag_ms later, so one before the turn of the window is charged to the next window as well.
CREATE FUNCTION spend_budget(b rate_budget, p_reason text, p_at timestamptz) RETURNS void LANGUAGE sql VOLATILE
AS $$
  UPDATE rate_budget SET
    window_start = b.window_start,
    used = b.used + 1,
    background_used = b.background_used + CASE WHEN p_reason = 'webhook' THEN 0 ELSE 1 END,
    previous_used = b.previous_used + CASE WHEN p_at < b.window_start + b.guard_ms * interval '1 ms' THEN 1 ELSE 0 END,
    next_used = b.next_used
      + CASE WHEN p_at >= b.window_start + (b.interval_ms - b.guard_ms - b.lag_ms) * interval '1 ms' THEN 1 ELSE 0 END,
    reduced_capacity = b.reduced_capacity,
    throttled = b.throttled,
    day = b.day,
    daily_used = b.daily_used + 1
$$;

-- The same as a transaction of its own: the answer need not wait for the disk, since the provider's
-- own usage figures bring back what a crash of the database would forget.
CREATE FUNCTION take_budget_at_once(p_reason text) RETURNS timestamptz LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true);
  RETURN take_budget(p_reason);
END
$$;

-- The provider's own figures correct the bucket upwards: others may use the same credentials. p_age_ms:
-- how long ago the call left that was answered. Near the turn of a window or of a day the answer may
-- speak of the other one, and is left alone.
CREATE FUNCTION correct_budget(p_limit integer, p_used integer, p_daily_limit integer, p_daily_used integer, p_age_ms integer)
RETURNS void LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
  b rate_budget;
  v_now timestamptz := sync_clock();
  v_guard interval;
  v_midnight timestamptz;
  v_used integer := 0;
  v_daily_used integer := 0;
  v_in_flight integer;
BEGIN
  SELECT * INTO b FROM rate_budget;
  b := budget_at(b, v_now);
  -- The usual case: the provider knows of no more calls than we do, and nothing is written.
  IF coalesce(p_used, 0) <= b.used AND coalesce(p_daily_used, 0) <= b.daily_used
    AND coalesce(p_limit, b.provider_limit) IS NOT DISTINCT FROM b.provider_limit
    AND coalesce(p_daily_limit, b.daily_limit) IS NOT DISTINCT FROM b.daily_limit THEN
    RETURN;
  END IF;
  PERFORM pg_advisory_xact_lock(hashtextextended('activity-sync rate budget', 0));
  v_now := sync_clock();
  SELECT * INTO b FROM rate_budget;
  b := budget_at(b, v_now);
  v_guard := b.guard_ms * interval '1 ms';
  v_midnight := b.day::timestamp AT TIME ZONE 'UTC';
  IF p_used > b.used AND v_now - p_age_ms * interval '1 ms' >= b.window_start + v_guard
    AND v_now < b.window_start + b.interval_ms * interval '1 ms' - v_guard THEN
    -- Somebody else spends too. Of our own calls those under way may not be in the provider's figure yet.
    SELECT count(*) INTO v_in_flight FROM fetch_queue() f WHERE f.running;
    v_used := p_used + v_in_flight;
  END IF;
  IF v_now - p_age_ms * interval '1 ms' >= v_midnight + v_guard AND v_now < v_midnight + interval '1 day' - v_guard THEN
    v_daily_used := p_daily_used;
  END IF;
  UPDATE rate_budget SET
    window_start = b.window_start,
    used = greatest(b.used, v_used),
    background_used = b.background_used,
    previous_used = b.previous_used,
    next_used = b.next_used,
    reduced_capacity = b.reduced_capacity,
    throttled = b.throttled,
    provider_limit = coalesce(p_limit, b.provider_limit),
    day = b.day,
    daily_used = greatest(b.daily_used, v_daily_used),
    daily_limit = coalesce(p_daily_limit, b.daily_limit);
END
$$;

-- A 429: every replica stops for p_wait_ms (null: until the window turns), a day at most. Capacity is
-- halved, once a window and never under a tenth of the configured one. Returns until when.
CREATE FUNCTION block_budget(p_wait_ms bigint, p_why text) RETURNS timestamptz LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
  b rate_budget;
  v_now timestamptz;
  v_until timestamptz;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('activity-sync rate budget', 0));
  v_now := sync_clock();
  SELECT * INTO b FROM rate_budget;
  b := budget_at(b, v_now);
  v_until := greatest(b.blocked_until, CASE WHEN p_wait_ms IS NULL
    THEN b.window_start + (b.interval_ms + b.guard_ms) * interval '1 ms'
    ELSE v_now + least(p_wait_ms, 86400000) * interval '1 ms' END);
  UPDATE rate_budget SET
    window_start = b.window_start,
    used = b.used,
    background_used = b.background_used,
    previous_used = b.previous_used,
    next_used = b.next_used,
    reduced_capacity = CASE WHEN b.throttled THEN b.reduced_capacity
      ELSE greatest(ceil(b.capacity / 10.0), floor(budget_capacity(b) / 2.0)) END,
    throttled = true,
    blocked_until = v_until,
    blocked_by = p_why,
    day = b.day,
    daily_used = b.daily_used;
  PERFORM pg_notify('activity_sync', 'budget');
  RETURN v_until;
END
$$;
