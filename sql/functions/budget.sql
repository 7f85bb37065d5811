-- The token bucket: a window's calls, counted as the provider counts them.

-- The row as of p_at: windows and days that have passed are rolled over. Reads nothing,
-- writes nothing. A reduced capacity recovers by a tenth of the configured one for each clean window. A window more
-- than one in the future was opened by a clock that has since been set back: its count, and a 429 then, would keep
-- the budget closed until that time. The provider's own figures say what is left of the current window.
CREATE OR REPLACE FUNCTION budget_at(b rate_budget, p_at timestamptz) RETURNS rate_budget LANGUAGE plpgsql STABLE
AS $$
DECLARE
  v_start timestamptz := date_bin(b.interval_ms * interval '1 ms', p_at, 'epoch');
  v_set_back boolean := b.window_start > v_start + b.interval_ms * interval '1 ms';
  v_passed integer;
BEGIN
  IF v_set_back THEN
    IF b.blocked_until >= b.window_start THEN
      b.blocked_until := '-infinity';
    END IF;
    b.window_start := v_start;
    b.used := 0;
    b.background_used := 0;
    b.previous_used := 0;
    b.next_used := 0;
    b.throttled := false;
  ELSIF v_start > b.window_start THEN
    v_passed := least(1000, round(extract(epoch FROM v_start - b.window_start) * 1000 / b.interval_ms));
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
  IF v_set_back OR (p_at AT TIME ZONE 'UTC')::date > b.day THEN
    b.day := (p_at AT TIME ZONE 'UTC')::date;
    b.daily_used := 0;
  END IF;
  RETURN b;
END
$$;

-- Calls that the window allows now: the configured capacity, the provider's own figure, a reduction.
CREATE OR REPLACE FUNCTION budget_capacity(b rate_budget) RETURNS integer LANGUAGE sql IMMUTABLE
AS $$ SELECT least(b.capacity, b.provider_limit, b.reduced_capacity) $$;

-- How many of the calls manual and polling may use: the last tenth is kept for webhooks.
CREATE OR REPLACE FUNCTION background_share(p_calls integer) RETURNS integer LANGUAGE sql IMMUTABLE
AS $$ SELECT CASE WHEN p_calls >= 1 THEN greatest(floor(p_calls * 0.9)::integer, 1) ELSE p_calls END $$;

-- When the next UTC day has begun by the provider's clock as well.
CREATE OR REPLACE FUNCTION budget_next_day(b rate_budget) RETURNS timestamptz LANGUAGE sql IMMUTABLE
AS $$ SELECT ((b.day + 1)::timestamp AT TIME ZONE 'UTC') + b.guard_ms * interval '1 ms' $$;

-- Until when no process may make a call: a 429, or the limit of the UTC day.
CREATE OR REPLACE FUNCTION budget_blocked_until(b rate_budget) RETURNS timestamptz LANGUAGE sql IMMUTABLE
AS $$ SELECT greatest(b.blocked_until, CASE WHEN b.daily_used >= b.daily_limit THEN budget_next_day(b) END) $$;

-- When the next call for this reason may be made; p_at or earlier means now. b must be rolled over.
--   * the last tenth of a window, and of a day, is kept for webhooks; manual and polling are spread over the window
--   * the provider's clock may differ from ours by guard_ms: a call near the rollover of the window can
--     count in either one, so it needs room in both
CREATE OR REPLACE FUNCTION budget_opens_at(b rate_budget, p_reason text, p_at timestamptz) RETURNS timestamptz LANGUAGE plpgsql STABLE
AS $$
DECLARE
  v_capacity integer := least(b.capacity, b.provider_limit, b.reduced_capacity);
  v_background integer;
  v_guard interval := b.guard_ms * interval '1 ms';
  v_opens timestamptz := budget_blocked_until(b);
BEGIN
  IF p_reason = 'webhook' THEN
    IF b.used >= v_capacity THEN
      v_opens := greatest(v_opens, b.window_start + b.interval_ms * interval '1 ms' + v_guard);
    ELSIF b.previous_used >= v_capacity THEN
      v_opens := greatest(v_opens, b.window_start + v_guard);
    END IF;
    RETURN v_opens;
  END IF;
  IF b.daily_used >= background_share(b.daily_limit) THEN
    v_opens := greatest(v_opens, budget_next_day(b));
  END IF;
  v_background := background_share(v_capacity);
  IF b.used >= v_background THEN
    RETURN greatest(v_opens, b.window_start + b.interval_ms * interval '1 ms' + v_guard);
  END IF;
  RETURN greatest(v_opens, b.window_start + v_guard,
    b.window_start + b.interval_ms * (0.95 * b.background_used / v_background) * interval '1 ms');
END
$$;

-- The budget, for a caller that changes it: under the advisory lock until the transaction ends.
CREATE OR REPLACE FUNCTION lock_budget() RETURNS rate_budget LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
  b rate_budget;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('activity-sync rate budget', 0));
  SELECT * INTO b FROM rate_budget;
  RETURN b;
END
$$;

-- Writes the budget, under its lock. Configured values do not change.
CREATE OR REPLACE FUNCTION save_budget(b rate_budget) RETURNS boolean LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
  UPDATE rate_budget SET
    window_start = b.window_start,
    used = b.used,
    background_used = b.background_used,
    previous_used = b.previous_used,
    next_used = b.next_used,
    reduced_capacity = b.reduced_capacity,
    throttled = b.throttled,
    provider_limit = b.provider_limit,
    blocked_until = b.blocked_until,
    blocked_by = b.blocked_by,
    day = b.day,
    daily_used = b.daily_used,
    daily_limit = b.daily_limit;
  RETURN FOUND;
END
$$;

-- Counts a call that was found open. It reaches the provider up to lag_ms later, so one just before the
-- rollover is charged to the next window as well. Writes nothing.
CREATE OR REPLACE FUNCTION spend_call(b rate_budget, p_reason text, p_at timestamptz) RETURNS rate_budget LANGUAGE plpgsql STABLE
AS $$
BEGIN
  b.used := b.used + 1;
  b.daily_used := b.daily_used + 1;
  IF p_reason <> 'webhook' THEN
    b.background_used := b.background_used + 1;
  END IF;
  IF p_at < b.window_start + b.guard_ms * interval '1 ms' THEN
    b.previous_used := b.previous_used + 1;
  ELSIF p_at >= b.window_start + (b.interval_ms - b.guard_ms - b.lag_ms) * interval '1 ms' THEN
    b.next_used := b.next_used + 1;
  END IF;
  RETURN b;
END
$$;

-- Takes one call out of the budget. One round trip; a refusal writes nothing.
-- Returns null when granted, else when to try again.
CREATE OR REPLACE FUNCTION take_budget(p_reason text) RETURNS timestamptz LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
  b rate_budget;
  v_now timestamptz;
  v_opens timestamptz;
BEGIN
  IF EXISTS (SELECT FROM fetch_pause p WHERE p.reason IN (p_reason, 'all')) THEN
    RETURN sync_clock() + interval '15 s'; -- an operator has paused it: ask again
  END IF;
  b := lock_budget();
  v_now := sync_clock();
  b := budget_at(b, v_now);
  v_opens := budget_opens_at(b, p_reason, v_now);
  IF v_opens > v_now THEN
    RETURN v_opens;
  END IF;
  PERFORM save_budget(spend_call(b, p_reason, v_now));
  RETURN NULL;
END
$$;

-- The same as a transaction of its own: the answer need not wait for the disk, since the provider's
-- own usage figures restore what a crash of the database would lose.
CREATE OR REPLACE FUNCTION take_budget_at_once(p_reason text) RETURNS timestamptz LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true);
  RETURN take_budget(p_reason);
END
$$;

-- Renews a call that was granted at p_granted_at and has not left yet: it is still charged to the
-- window that it would count in now, or another call is taken. opens_at as take_budget_at_once returns it.
CREATE OR REPLACE FUNCTION renew_grant(p_reason text, p_granted_at timestamptz, OUT opens_at timestamptz, OUT taken boolean)
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
  b rate_budget;
  v_now timestamptz := sync_clock();
  v_interval interval;
  v_turn interval;
  v_end timestamptz;
BEGIN
  SELECT * INTO b FROM rate_budget;
  v_interval := b.interval_ms * interval '1 ms';
  v_turn := (b.guard_ms + b.lag_ms) * interval '1 ms';
  v_end := date_bin(v_interval, p_granted_at, 'epoch') + v_interval;
  IF p_granted_at >= v_end - v_turn THEN
    v_end := v_end + v_interval; -- charged to both
  END IF;
  taken := v_now >= v_end - v_turn;
  IF taken THEN
    opens_at := take_budget_at_once(p_reason);
  ELSIF b.blocked_until > v_now THEN
    opens_at := b.blocked_until;
  END IF;
END
$$;

-- The provider's own figures correct the bucket upwards: others may use the same credentials. p_age_ms:
-- how long ago the answered call left. Near the rollover of a window or of a day the answer may
-- be about the other one, and is ignored.
CREATE OR REPLACE FUNCTION correct_budget(p_limit integer, p_used integer, p_daily_limit integer, p_daily_used integer, p_age_ms integer)
RETURNS void LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
  b rate_budget;
  v_now timestamptz := sync_clock();
  v_left timestamptz;
  v_guard interval;
  v_midnight timestamptz;
BEGIN
  SELECT * INTO b FROM rate_budget;
  b := budget_at(b, v_now);
  -- The usual case: the provider knows of no more calls than we do, and nothing is written.
  IF coalesce(p_used, 0) <= b.used AND coalesce(p_daily_used, 0) <= b.daily_used
    AND coalesce(p_limit, b.provider_limit) IS NOT DISTINCT FROM b.provider_limit
    AND coalesce(p_daily_limit, b.daily_limit) IS NOT DISTINCT FROM b.daily_limit THEN
    RETURN;
  END IF;
  b := lock_budget();
  v_now := sync_clock();
  b := budget_at(b, v_now);
  v_left := v_now - p_age_ms * interval '1 ms';
  v_guard := b.guard_ms * interval '1 ms';
  v_midnight := b.day::timestamp AT TIME ZONE 'UTC';
  b.provider_limit := coalesce(p_limit, b.provider_limit);
  b.daily_limit := coalesce(p_daily_limit, b.daily_limit);
  IF p_used > b.used AND v_left >= b.window_start + v_guard
    AND v_now < b.window_start + b.interval_ms * interval '1 ms' - v_guard THEN
    -- Another client spends too. Our own running calls may not be in the provider's figure yet.
    b.used := p_used + (SELECT count(*) FROM fetch_queue() f WHERE f.running);
  END IF;
  IF p_daily_used > b.daily_used AND v_left >= v_midnight + v_guard AND v_now < v_midnight + interval '1 day' - v_guard THEN
    b.daily_used := p_daily_used;
  END IF;
  PERFORM save_budget(b);
END
$$;

-- A 429: every replica stops for p_wait_ms (null: until the window's rollover), a day at most. Capacity is
-- halved, once a window and never under a tenth of the configured one. Returns until when.
CREATE OR REPLACE FUNCTION block_budget(p_wait_ms bigint, p_why text) RETURNS timestamptz LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
  b rate_budget;
  v_now timestamptz;
BEGIN
  b := lock_budget();
  v_now := sync_clock();
  b := budget_at(b, v_now);
  b.blocked_until := greatest(b.blocked_until, CASE WHEN p_wait_ms IS NULL
    THEN b.window_start + (b.interval_ms + b.guard_ms) * interval '1 ms'
    ELSE v_now + least(p_wait_ms, 86400000) * interval '1 ms' END);
  b.blocked_by := p_why;
  IF NOT b.throttled THEN
    b.reduced_capacity := greatest(ceil(b.capacity / 10.0), floor(budget_capacity(b) / 2.0));
    b.throttled := true;
  END IF;
  PERFORM save_budget(b);
  PERFORM pg_notify('activity_sync', 'budget');
  RETURN b.blocked_until;
END
$$;
