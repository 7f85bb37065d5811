-- The schema "public" as the migrations make it, for reading and for review. Written by
-- npm run schema:dump; the tests compare it with a database that was migrated from nothing.

CREATE OR REPLACE FUNCTION public.background_share(p_calls integer)
 RETURNS integer
 LANGUAGE sql
 IMMUTABLE
AS $function$ SELECT CASE WHEN p_calls >= 1 THEN greatest(floor(p_calls * 0.9)::integer, 1) ELSE p_calls END $function$
;

CREATE OR REPLACE FUNCTION public.begin_run(p_job uuid, p_lane integer, p_process integer, p_hold_ms integer)
 RETURNS TABLE(opens_at timestamp with time zone, job_id bigint, activity_id bigint, athlete_id bigint, reason text, force boolean, aspect event_aspect, signed boolean, version integer, needs_call boolean, known_athlete boolean, known_activity boolean, access_token text, token_expires_at timestamp with time zone, scope text, athlete_state text, started_at text, requested_at timestamp with time zone, waited_ms double precision)
 LANGUAGE plpgsql
AS $function$
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
$function$
;

CREATE OR REPLACE FUNCTION public.block_budget(p_wait_ms bigint, p_why text)
 RETURNS timestamp with time zone
 LANGUAGE plpgsql
AS $function$
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
$function$
;

CREATE OR REPLACE FUNCTION public.budget_at(b rate_budget, p_at timestamp with time zone)
 RETURNS rate_budget
 LANGUAGE plpgsql
 STABLE
AS $function$
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
$function$
;

CREATE OR REPLACE FUNCTION public.budget_blocked_until(b rate_budget)
 RETURNS timestamp with time zone
 LANGUAGE sql
 IMMUTABLE
AS $function$ SELECT greatest(b.blocked_until, CASE WHEN b.daily_used >= b.daily_limit THEN budget_next_day(b) END) $function$
;

CREATE OR REPLACE FUNCTION public.budget_capacity(b rate_budget)
 RETURNS integer
 LANGUAGE sql
 IMMUTABLE
AS $function$ SELECT least(b.capacity, b.provider_limit, b.reduced_capacity) $function$
;

CREATE OR REPLACE FUNCTION public.budget_next_day(b rate_budget)
 RETURNS timestamp with time zone
 LANGUAGE sql
 IMMUTABLE
AS $function$ SELECT ((b.day + 1)::timestamp AT TIME ZONE 'UTC') + b.guard_ms * interval '1 ms' $function$
;

CREATE OR REPLACE FUNCTION public.budget_opens_at(b rate_budget, p_reason text, p_at timestamp with time zone)
 RETURNS timestamp with time zone
 LANGUAGE plpgsql
 STABLE
AS $function$
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
$function$
;

CREATE OR REPLACE FUNCTION public.compact_job_counts()
 RETURNS void
 LANGUAGE sql
AS $function$
  WITH folded AS (DELETE FROM job_count RETURNING reason, outcome, jobs)
  INSERT INTO job_count SELECT reason, outcome, sum(jobs) FROM folded GROUP BY reason, outcome HAVING sum(jobs) <> 0
$function$
;

CREATE OR REPLACE FUNCTION public.correct_budget(p_limit integer, p_used integer, p_daily_limit integer, p_daily_used integer, p_age_ms integer)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
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
$function$
;

CREATE OR REPLACE FUNCTION public.count_added_jobs()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
  INSERT INTO job_count SELECT reason, outcome, count(*) FROM added GROUP BY reason, outcome;
  RETURN NULL;
END
$function$
;

CREATE OR REPLACE FUNCTION public.count_changed_jobs()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
  INSERT INTO job_count
  SELECT reason, outcome, sum(jobs)
  FROM (SELECT reason, outcome, 1 AS jobs FROM added UNION ALL SELECT reason, outcome, -1 FROM removed) change
  GROUP BY reason, outcome
  HAVING sum(jobs) <> 0;
  RETURN NULL;
END
$function$
;

CREATE OR REPLACE FUNCTION public.count_removed_jobs()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
  INSERT INTO job_count SELECT reason, outcome, -count(*) FROM removed GROUP BY reason, outcome;
  RETURN NULL;
END
$function$
;

CREATE OR REPLACE FUNCTION public.delivery_queue()
 RETURNS TABLE(boss_job_id uuid, waiting boolean, running boolean, retry_count integer, start_after timestamp with time zone, started_on timestamp with time zone)
 LANGUAGE sql
 STABLE
AS $function$
  SELECT j.id, j.state < 'active' AND NOT j.blocked, j.state = 'active' AND j.group_id IS NOT NULL, j.retry_count, j.start_after, j.started_on
  FROM pgboss.job j
  WHERE j.name = 'delivery'
$function$
;

CREATE OR REPLACE FUNCTION public.fetch_queue()
 RETURNS TABLE(boss_job_id uuid, activity_id bigint, waiting boolean, running boolean, completed boolean, ended boolean, lane integer, retry_count integer, attempts integer, max_attempts integer, start_after timestamp with time zone, started_on timestamp with time zone, changed_on timestamp with time zone, error text)
 LANGUAGE sql
 STABLE
AS $function$
  SELECT j.id,
    j.singleton_key::bigint,
    j.state < 'active' AND NOT j.blocked,
    j.state = 'active' AND j.group_id IS NOT NULL,
    j.state = 'completed',
    j.state > 'completed',
    j.priority,
    j.retry_count,
    -- A released job is a new one with as many retries as were left of the queue's limit.
    (SELECT q.retry_limit FROM pgboss.queue q WHERE q.name = 'activity-fetch') - j.retry_limit + j.retry_count
      + CASE WHEN j.state = 'retry' THEN 1 ELSE 0 END,
    (SELECT q.retry_limit FROM pgboss.queue q WHERE q.name = 'activity-fetch'),
    j.start_after,
    j.started_on,
    greatest(j.created_on, j.started_on, j.completed_on),
    -- The second is what pg-boss writes of a run that it gives up.
    coalesce(j.output->>'message', j.output #>> '{value,message}', j.data->>'error')
  FROM pgboss.job j
  WHERE j.name = 'activity-fetch'
$function$
;

CREATE OR REPLACE FUNCTION public.forget_job_counts()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
  TRUNCATE job_count;
  RETURN NULL;
END
$function$
;

CREATE OR REPLACE FUNCTION public.lock_budget()
 RETURNS rate_budget
 LANGUAGE plpgsql
AS $function$
DECLARE
  b rate_budget;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('activity-sync rate budget', 0));
  SELECT * INTO b FROM rate_budget;
  RETURN b;
END
$function$
;

CREATE OR REPLACE FUNCTION public.next_lane(OUT lane integer, OUT reason text, OUT wait_ms double precision, OUT waits_for text)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
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
$function$
;

CREATE OR REPLACE FUNCTION public.number_change()
 RETURNS trigger
 LANGUAGE plpgsql
 SET enable_seqscan TO 'off'
 SET jit TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
DECLARE
  v_last bigint;
BEGIN
  -- Fires for each change; the first call numbers all changes of the transaction, the only unnumbered ones visible.
  -- A change that the same transaction erased again does not count.
  PERFORM FROM change WHERE id = NEW.id AND position IS NULL;
  IF FOUND THEN
    UPDATE change_feed SET position = position + (SELECT count(*) FROM change WHERE position IS NULL) RETURNING position INTO v_last;
    UPDATE change c SET position = v_last - u.behind
    FROM (SELECT id, row_number() OVER (ORDER BY seq DESC) - 1 AS behind FROM change WHERE position IS NULL) u
    WHERE c.id = u.id;
    PERFORM pg_notify('activity_sync_changes', ''), pg_notify('activity_sync', 'change');
  END IF;
  RETURN NULL;
END
$function$
;

CREATE OR REPLACE FUNCTION public.record_activity_changes()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
  IF TG_OP = 'INSERT' THEN
    PERFORM record_changes(array_agg('activity.created'::text), array_agg(athlete_id), array_agg(activity_id)) FROM fresh HAVING count(*) > 0;
  ELSIF TG_OP = 'DELETE' THEN
    PERFORM record_changes(array_agg('activity.deleted'::text), array_agg(athlete_id), array_agg(activity_id)) FROM gone HAVING count(*) > 0;
  ELSE
    PERFORM record_changes(array_agg('activity.updated'::text), array_agg(f.athlete_id), array_agg(f.activity_id))
    FROM fresh f JOIN gone g USING (activity_id) WHERE f.detail::text <> g.detail::text OR f.athlete_id <> g.athlete_id HAVING count(*) > 0;
  END IF;
  RETURN NULL;
END
$function$
;

CREATE OR REPLACE FUNCTION public.record_changes(p_types text[], p_athletes bigint[], p_activities bigint[], p_endpoints bigint[] DEFAULT NULL::bigint[])
 RETURNS void
 LANGUAGE sql
AS $function$
  INSERT INTO change (type, athlete_id, external_id, activity_id, endpoint_id)
  SELECT c.type, c.athlete_id, (SELECT a.external_id FROM athlete a WHERE a.athlete_id = c.athlete_id), c.activity_id, c.endpoint_id
  FROM unnest(p_types, p_athletes, p_activities, p_endpoints) WITH ORDINALITY AS c (type, athlete_id, activity_id, endpoint_id, n)
  ORDER BY c.n
$function$
;

CREATE OR REPLACE FUNCTION public.renew_grant(p_reason text, p_granted_at timestamp with time zone, OUT opens_at timestamp with time zone, OUT taken boolean)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
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
$function$
;

CREATE OR REPLACE FUNCTION public.save_budget(b rate_budget)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
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
$function$
;

CREATE OR REPLACE FUNCTION public.spend_call(b rate_budget, p_reason text, p_at timestamp with time zone)
 RETURNS rate_budget
 LANGUAGE plpgsql
 STABLE
AS $function$
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
$function$
;

CREATE OR REPLACE FUNCTION public.sync_clock()
 RETURNS timestamp with time zone
 LANGUAGE plpgsql
AS $function$
BEGIN
  IF current_setting('pgboss.test_clock', true) = 'on' THEN
    RETURN pgboss.job_now();
  END IF;
  RETURN clock_timestamp();
END
$function$
;

CREATE OR REPLACE FUNCTION public.sync_now()
 RETURNS timestamp with time zone
 LANGUAGE sql
 STABLE
AS $function$ SELECT pgboss.job_now() $function$
;

CREATE OR REPLACE FUNCTION public.take_budget(p_reason text)
 RETURNS timestamp with time zone
 LANGUAGE plpgsql
AS $function$
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
$function$
;

CREATE OR REPLACE FUNCTION public.take_budget_at_once(p_reason text)
 RETURNS timestamp with time zone
 LANGUAGE plpgsql
AS $function$
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true);
  RETURN take_budget(p_reason);
END
$function$
;

CREATE OR REPLACE FUNCTION public.thumbnail_queue()
 RETURNS TABLE(boss_job_id uuid, activity_id bigint, waiting boolean, running boolean, retry_count integer, start_after timestamp with time zone, started_on timestamp with time zone)
 LANGUAGE sql
 STABLE
AS $function$
  SELECT j.id, j.singleton_key::bigint, j.state < 'active' AND NOT j.blocked, j.state = 'active', j.retry_count, j.start_after, j.started_on
  FROM pgboss.job j
  WHERE j.name = 'thumbnail'
  ORDER BY j.priority DESC, j.created_on, j.start_after
$function$
;

CREATE OR REPLACE FUNCTION public.unconfirmed_deauthorizations()
 RETURNS integer
 LANGUAGE sql
 STABLE
AS $function$ SELECT count(*)::integer FROM pgboss.job j WHERE j.name = 'deauthorization' AND j.state = 'retry' $function$
;

CREATE OR REPLACE FUNCTION public.waiting_in_lane(p_lane integer)
 RETURNS TABLE(start_after timestamp with time zone)
 LANGUAGE sql
 STABLE
AS $function$
  SELECT j.start_after FROM pgboss.job j
  WHERE j.name = 'activity-fetch' AND j.state < 'active' AND NOT j.blocked AND j.priority = p_lane
  ORDER BY j.priority DESC, j.created_on, j.start_after
$function$
;

CREATE OR REPLACE FUNCTION public.wake_forgotten_lanes()
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
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
$function$
;

CREATE TABLE activity (
  activity_id bigint NOT NULL,
  athlete_id bigint NOT NULL,
  name text NOT NULL,
  sport_type text NOT NULL,
  start_date timestamp with time zone NOT NULL,
  timezone text,
  distance_m double precision DEFAULT 0 NOT NULL,
  moving_time_s integer DEFAULT 0 NOT NULL,
  elapsed_time_s integer DEFAULT 0 NOT NULL,
  elevation_gain_m double precision DEFAULT 0 NOT NULL,
  private boolean DEFAULT false NOT NULL,
  detail json NOT NULL,
  fetched_at timestamp with time zone DEFAULT sync_now() NOT NULL,
  CONSTRAINT activity_pkey PRIMARY KEY (activity_id),
  CONSTRAINT activity_id_positive CHECK (activity_id > 0)
) WITH (toast_tuple_target=4080);

CREATE TABLE activity_fetch_job (
  id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
  activity_id bigint NOT NULL,
  athlete_id bigint NOT NULL,
  reason text NOT NULL,
  force boolean DEFAULT false NOT NULL,
  aspect event_aspect DEFAULT 'create'::event_aspect NOT NULL,
  event_time timestamp with time zone,
  version integer DEFAULT 1 NOT NULL,
  boss_job_id uuid DEFAULT gen_random_uuid() NOT NULL,
  outcome fetch_outcome,
  created_at timestamp with time zone DEFAULT sync_now() NOT NULL,
  requested_at timestamp with time zone DEFAULT sync_now() NOT NULL,
  reclaims smallint DEFAULT 0 NOT NULL,
  signed boolean DEFAULT false NOT NULL,
  CONSTRAINT activity_fetch_job_pkey PRIMARY KEY (id),
  CONSTRAINT activity_fetch_job_activity_once UNIQUE (activity_id),
  CONSTRAINT activity_fetch_job_activity_positive CHECK (activity_id > 0),
  CONSTRAINT activity_fetch_job_athlete_positive CHECK (athlete_id > 0),
  CONSTRAINT activity_fetch_job_reason_known CHECK (reason = ANY (ARRAY['webhook'::text, 'manual'::text, 'polling'::text]))
);

CREATE TABLE activity_tombstone (
  activity_id bigint NOT NULL,
  athlete_id bigint NOT NULL,
  deleted_at timestamp with time zone DEFAULT sync_now() NOT NULL,
  CONSTRAINT activity_tombstone_pkey PRIMARY KEY (activity_id)
);

CREATE TABLE api_token (
  id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
  name text NOT NULL,
  scope text NOT NULL,
  digest bytea NOT NULL,
  created_at timestamp with time zone DEFAULT sync_now() NOT NULL,
  last_used_at timestamp with time zone,
  revoked_at timestamp with time zone,
  CONSTRAINT api_token_pkey PRIMARY KEY (id),
  CONSTRAINT api_token_digest_once UNIQUE (digest),
  CONSTRAINT api_token_scope_known CHECK (scope = ANY (ARRAY['read'::text, 'write'::text]))
);

CREATE TABLE athlete (
  athlete_id bigint NOT NULL,
  name text,
  access_token text NOT NULL,
  refresh_token text NOT NULL,
  token_expires_at timestamp with time zone NOT NULL,
  scope text NOT NULL,
  state text DEFAULT 'healthy'::text NOT NULL,
  state_detail text,
  connected_at timestamp with time zone DEFAULT sync_now() NOT NULL,
  updated_at timestamp with time zone DEFAULT sync_now() NOT NULL,
  hidden_since timestamp with time zone,
  external_id text,
  CONSTRAINT athlete_pkey PRIMARY KEY (athlete_id),
  CONSTRAINT athlete_id_positive CHECK (athlete_id > 0),
  CONSTRAINT athlete_state_known CHECK (state = ANY (ARRAY['healthy'::text, 'reconnect'::text, 'scope'::text]))
);

CREATE TABLE athlete_schedule (
  athlete_id bigint NOT NULL,
  cooldown_until timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
  held_by uuid,
  CONSTRAINT athlete_schedule_pkey PRIMARY KEY (athlete_id)
);

CREATE TABLE audit_entry (
  id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
  at timestamp with time zone DEFAULT sync_now() NOT NULL,
  who text NOT NULL,
  action text NOT NULL,
  target text,
  detail jsonb DEFAULT '{}'::jsonb NOT NULL,
  status integer,
  athlete_id bigint,
  CONSTRAINT audit_entry_pkey PRIMARY KEY (id),
  CONSTRAINT audit_entry_who_known CHECK (who = ANY (ARRAY['admin'::text, 'read'::text, 'session'::text, 'application'::text, 'nobody'::text]))
);

CREATE TABLE browser_session (
  id_hash bytea NOT NULL,
  access text NOT NULL,
  expires_at timestamp with time zone NOT NULL,
  CONSTRAINT browser_session_pkey PRIMARY KEY (id_hash),
  CONSTRAINT browser_session_access_known CHECK (access = ANY (ARRAY['admin'::text, 'read'::text]))
);

CREATE TABLE bulk_change (
  id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
  action text NOT NULL,
  filter jsonb NOT NULL,
  athlete_id bigint,
  requested_by text NOT NULL,
  total integer NOT NULL,
  changed integer DEFAULT 0 NOT NULL,
  state text DEFAULT 'running'::text NOT NULL,
  cancels boolean DEFAULT false NOT NULL,
  error text,
  started_at timestamp with time zone DEFAULT sync_now() NOT NULL,
  stepped_at timestamp with time zone DEFAULT sync_now() NOT NULL,
  finished_at timestamp with time zone,
  CONSTRAINT bulk_change_pkey PRIMARY KEY (id),
  CONSTRAINT bulk_change_action_known CHECK (action = ANY (ARRAY['retry'::text, 'force'::text, 'delete'::text, 'replay'::text])),
  CONSTRAINT bulk_change_state_known CHECK (state = ANY (ARRAY['running'::text, 'finished'::text, 'cancelled'::text, 'interrupted'::text, 'failed'::text]))
);

CREATE TABLE change (
  seq bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
  id uuid DEFAULT gen_random_uuid() NOT NULL,
  "position" bigint,
  type text NOT NULL,
  at timestamp with time zone DEFAULT sync_now() NOT NULL,
  athlete_id bigint,
  external_id text,
  activity_id bigint,
  endpoint_id bigint,
  CONSTRAINT change_pkey PRIMARY KEY (id),
  CONSTRAINT change_position_once UNIQUE ("position")
);

CREATE TABLE change_feed (
  only_row boolean DEFAULT true NOT NULL,
  "position" bigint DEFAULT 0 NOT NULL,
  kept_after bigint DEFAULT 0 NOT NULL,
  CONSTRAINT change_feed_pkey PRIMARY KEY (only_row),
  CONSTRAINT change_feed_is_one CHECK (only_row)
) WITH (fillfactor=50);

CREATE TABLE delivery (
  id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
  endpoint_id bigint NOT NULL,
  change_id uuid NOT NULL,
  "position" bigint,
  type text NOT NULL,
  at timestamp with time zone NOT NULL,
  athlete_id bigint,
  external_id text,
  activity_id bigint,
  line bigint GENERATED ALWAYS AS (COALESCE(athlete_id, (0)::bigint)) STORED NOT NULL,
  state text DEFAULT 'waiting'::text NOT NULL,
  attempts integer DEFAULT 0 NOT NULL,
  job_id uuid,
  created_at timestamp with time zone DEFAULT sync_now() NOT NULL,
  settled_at timestamp with time zone,
  CONSTRAINT delivery_pkey PRIMARY KEY (id),
  CONSTRAINT delivery_state_known CHECK (state = ANY (ARRAY['waiting'::text, 'delivered'::text, 'exhausted'::text])),
  CONSTRAINT delivery_to_endpoint FOREIGN KEY (endpoint_id) REFERENCES endpoint(id) ON DELETE CASCADE
);

CREATE TABLE delivery_attempt (
  id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
  delivery_id bigint NOT NULL,
  endpoint_id bigint NOT NULL,
  at timestamp with time zone DEFAULT sync_now() NOT NULL,
  duration_ms integer NOT NULL,
  status integer,
  error text,
  answer text,
  result text NOT NULL,
  CONSTRAINT delivery_attempt_pkey PRIMARY KEY (id),
  CONSTRAINT delivery_attempt_of_delivery FOREIGN KEY (delivery_id) REFERENCES delivery(id) ON DELETE CASCADE,
  CONSTRAINT delivery_attempt_result_known CHECK (result = ANY (ARRAY['delivered'::text, 'retry'::text, 'exhausted'::text]))
);

CREATE TABLE duty (
  name text NOT NULL,
  holder uuid NOT NULL,
  held_until timestamp with time zone NOT NULL,
  CONSTRAINT duty_pkey PRIMARY KEY (name)
);

CREATE TABLE endpoint (
  id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
  url text NOT NULL,
  types text[],
  athlete_ids bigint[],
  description text DEFAULT ''::text NOT NULL,
  secret text NOT NULL,
  former_secret text,
  former_until timestamp with time zone,
  "position" bigint NOT NULL,
  succeeded_at timestamp with time zone,
  failing_since timestamp with time zone,
  disabled_at timestamp with time zone,
  disabled_reason text,
  created_at timestamp with time zone DEFAULT sync_now() NOT NULL,
  CONSTRAINT endpoint_pkey PRIMARY KEY (id),
  CONSTRAINT endpoint_disabled_reason_known CHECK (disabled_reason = ANY (ARRAY['gone'::text, 'failing'::text, 'request'::text]))
);

CREATE TABLE fetch_attempt (
  id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
  job_id bigint NOT NULL,
  started_at timestamp with time zone NOT NULL,
  ended_at timestamp with time zone DEFAULT sync_now() NOT NULL,
  result text NOT NULL,
  error text,
  outcome fetch_outcome,
  CONSTRAINT fetch_attempt_pkey PRIMARY KEY (id),
  CONSTRAINT fetch_attempt_of_job FOREIGN KEY (job_id) REFERENCES activity_fetch_job(id) ON DELETE CASCADE,
  CONSTRAINT fetch_attempt_result_known CHECK (result = ANY (ARRAY['done'::text, 'retry'::text, 'put_back'::text, 'failed'::text]))
);

CREATE TABLE fetch_pause (
  reason text NOT NULL,
  paused_by text NOT NULL,
  paused_at timestamp with time zone DEFAULT sync_now() NOT NULL,
  note text NOT NULL,
  CONSTRAINT fetch_pause_pkey PRIMARY KEY (reason),
  CONSTRAINT fetch_pause_reason_known CHECK (reason = ANY (ARRAY['all'::text, 'webhook'::text, 'manual'::text, 'polling'::text]))
);

CREATE TABLE fetch_request (
  id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
  job_id bigint NOT NULL,
  at timestamp with time zone DEFAULT sync_now() NOT NULL,
  kind text NOT NULL,
  requested_by text,
  source bigint,
  CONSTRAINT fetch_request_pkey PRIMARY KEY (id),
  CONSTRAINT fetch_request_kind_known CHECK (kind = ANY (ARRAY['request'::text, 'retry'::text, 'replay'::text, 'sync'::text, 'polling'::text, 'connect'::text])),
  CONSTRAINT fetch_request_of_job FOREIGN KEY (job_id) REFERENCES activity_fetch_job(id) ON DELETE CASCADE
);

CREATE TABLE history (
  minute timestamp with time zone NOT NULL,
  measure text NOT NULL,
  bucket double precision NOT NULL,
  n bigint NOT NULL,
  CONSTRAINT history_pkey PRIMARY KEY (minute, measure, bucket)
);

CREATE TABLE job_claim (
  boss_job_id uuid NOT NULL,
  queue text NOT NULL,
  process_id integer NOT NULL,
  version integer,
  CONSTRAINT job_claim_pkey PRIMARY KEY (boss_job_id)
);

CREATE TABLE job_count (
  reason text NOT NULL,
  outcome fetch_outcome,
  jobs bigint NOT NULL
);

CREATE TABLE lane (
  lane integer GENERATED BY DEFAULT AS IDENTITY NOT NULL,
  athlete_id bigint NOT NULL,
  reason text NOT NULL,
  due_at timestamp with time zone,
  CONSTRAINT lane_pkey PRIMARY KEY (lane),
  CONSTRAINT lane_of_athlete FOREIGN KEY (athlete_id) REFERENCES athlete_schedule(athlete_id) ON DELETE CASCADE,
  CONSTRAINT lane_once UNIQUE (athlete_id, reason),
  CONSTRAINT lane_reason_known CHECK (reason = ANY (ARRAY['delete'::text, 'webhook'::text, 'manual'::text, 'polling'::text]))
);

CREATE TABLE list_visit (
  walk_id bigint NOT NULL,
  athlete_id bigint NOT NULL,
  not_before timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
  before_s bigint,
  page integer DEFAULT 1 NOT NULL,
  boundary bigint[] DEFAULT '{}'::bigint[] NOT NULL,
  known_in_a_row integer DEFAULT 0 NOT NULL,
  failures integer DEFAULT 0 NOT NULL,
  CONSTRAINT list_visit_pkey PRIMARY KEY (walk_id, athlete_id),
  CONSTRAINT list_visit_of_athlete FOREIGN KEY (athlete_id) REFERENCES athlete(athlete_id) ON DELETE CASCADE,
  CONSTRAINT list_visit_of_walk FOREIGN KEY (walk_id) REFERENCES list_walk(id) ON DELETE CASCADE
);

CREATE TABLE list_walk (
  id bigint GENERATED BY DEFAULT AS IDENTITY NOT NULL,
  kind text NOT NULL,
  athlete_id bigint,
  after_s bigint,
  before_s bigint,
  force boolean DEFAULT false NOT NULL,
  state text DEFAULT 'running'::text NOT NULL,
  error text,
  athletes integer DEFAULT 0 NOT NULL,
  athletes_listed integer DEFAULT 0 NOT NULL,
  athletes_failed integer DEFAULT 0 NOT NULL,
  pages integer DEFAULT 0 NOT NULL,
  listed integer DEFAULT 0 NOT NULL,
  queued integer DEFAULT 0 NOT NULL,
  fetched integer DEFAULT 0 NOT NULL,
  fetches_failed integer DEFAULT 0 NOT NULL,
  open_items integer DEFAULT 0 NOT NULL,
  busiest_athlete integer DEFAULT 0 NOT NULL,
  not_before timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
  check_due_at timestamp with time zone,
  stepped_at timestamp with time zone DEFAULT sync_now() NOT NULL,
  claim_token uuid,
  lease_until timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
  started_at timestamp with time zone DEFAULT sync_now() NOT NULL,
  finished_at timestamp with time zone,
  CONSTRAINT list_walk_pkey PRIMARY KEY (id),
  CONSTRAINT list_walk_kind_known CHECK (kind = ANY (ARRAY['polling'::text, 'manual'::text])),
  CONSTRAINT list_walk_of_athlete FOREIGN KEY (athlete_id) REFERENCES athlete(athlete_id) ON DELETE CASCADE,
  CONSTRAINT list_walk_state_known CHECK (state = ANY (ARRAY['running'::text, 'finished'::text, 'cancelled'::text, 'failed'::text]))
);

CREATE TABLE polling_difference (
  activity_id bigint NOT NULL,
  summary text NOT NULL,
  asked_at timestamp with time zone NOT NULL,
  CONSTRAINT polling_difference_pkey PRIMARY KEY (activity_id),
  CONSTRAINT polling_difference_of_activity FOREIGN KEY (activity_id) REFERENCES activity(activity_id) ON DELETE CASCADE
);

CREATE TABLE process (
  process_id integer GENERATED BY DEFAULT AS IDENTITY NOT NULL,
  host text NOT NULL,
  pid integer NOT NULL,
  roles text[] NOT NULL,
  version text NOT NULL,
  started_at timestamp with time zone DEFAULT now() NOT NULL,
  last_seen_at timestamp with time zone DEFAULT now() NOT NULL,
  CONSTRAINT process_pkey PRIMARY KEY (process_id)
);

CREATE TABLE rate_budget (
  one_row boolean DEFAULT true NOT NULL,
  capacity integer DEFAULT 600 NOT NULL,
  interval_ms integer DEFAULT 900000 NOT NULL,
  guard_ms integer DEFAULT 2000 NOT NULL,
  lag_ms integer DEFAULT 1000 NOT NULL,
  window_start timestamp with time zone DEFAULT '1970-01-01 00:00:00+00'::timestamp with time zone NOT NULL,
  used integer DEFAULT 0 NOT NULL,
  background_used integer DEFAULT 0 NOT NULL,
  previous_used integer DEFAULT 0 NOT NULL,
  next_used integer DEFAULT 0 NOT NULL,
  reduced_capacity integer,
  throttled boolean DEFAULT false NOT NULL,
  provider_limit integer,
  blocked_until timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
  blocked_by text,
  day date DEFAULT '1970-01-01'::date NOT NULL,
  daily_used integer DEFAULT 0 NOT NULL,
  daily_limit integer,
  CONSTRAINT rate_budget_pkey PRIMARY KEY (one_row),
  CONSTRAINT rate_budget_one_row CHECK (one_row)
) WITH (fillfactor=10);

CREATE TABLE schema_functions (
  one_row boolean DEFAULT true NOT NULL,
  release text NOT NULL,
  checksum text NOT NULL,
  replaced_at timestamp with time zone DEFAULT now() NOT NULL,
  CONSTRAINT schema_functions_pkey PRIMARY KEY (one_row),
  CONSTRAINT schema_functions_one_row CHECK (one_row)
);

CREATE TABLE schema_migration (
  name text NOT NULL,
  applied_at timestamp with time zone DEFAULT now() NOT NULL,
  checksum text,
  compatible boolean DEFAULT false NOT NULL,
  CONSTRAINT schema_migration_pkey PRIMARY KEY (name)
);

CREATE TABLE subscription (
  subscription_id bigint NOT NULL,
  callback_url text NOT NULL,
  known_since timestamp with time zone DEFAULT sync_now() NOT NULL,
  CONSTRAINT subscription_pkey PRIMARY KEY (subscription_id)
);

CREATE TABLE sync_item (
  sync_id bigint NOT NULL,
  activity_id bigint NOT NULL,
  athlete_id bigint NOT NULL,
  settled boolean DEFAULT false NOT NULL,
  joined boolean NOT NULL,
  version integer NOT NULL,
  CONSTRAINT sync_item_pkey PRIMARY KEY (sync_id, activity_id),
  CONSTRAINT sync_item_of_job FOREIGN KEY (activity_id) REFERENCES activity_fetch_job(activity_id) ON DELETE CASCADE,
  CONSTRAINT sync_item_of_sync FOREIGN KEY (sync_id) REFERENCES list_walk(id) ON DELETE CASCADE
);

CREATE TABLE thumbnail (
  activity_id bigint NOT NULL,
  png bytea STORAGE EXTERNAL NOT NULL,
  etag text NOT NULL,
  size_px integer NOT NULL,
  rendered_at timestamp with time zone DEFAULT sync_now() NOT NULL,
  CONSTRAINT thumbnail_pkey PRIMARY KEY (activity_id),
  CONSTRAINT thumbnail_of_activity FOREIGN KEY (activity_id) REFERENCES activity(activity_id) ON DELETE CASCADE
);

CREATE TABLE used_oauth_state (
  nonce text NOT NULL,
  expires_at timestamp with time zone NOT NULL,
  CONSTRAINT used_oauth_state_pkey PRIMARY KEY (nonce)
);

CREATE TABLE webhook_event (
  id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
  object_type text NOT NULL,
  object_id bigint NOT NULL,
  aspect_type event_aspect NOT NULL,
  owner_id bigint NOT NULL,
  subscription_id bigint,
  event_time timestamp with time zone NOT NULL,
  updates jsonb DEFAULT '{}'::jsonb NOT NULL,
  result event_result DEFAULT 'accepted'::event_result NOT NULL,
  deliveries integer DEFAULT 1 NOT NULL,
  received_at timestamp with time zone DEFAULT sync_now() NOT NULL,
  last_received_at timestamp with time zone DEFAULT sync_now() NOT NULL,
  CONSTRAINT webhook_event_pkey PRIMARY KEY (id),
  CONSTRAINT webhook_event_once UNIQUE (object_id, event_time, aspect_type, object_type)
);

CREATE INDEX activity_fetch_job_by_outcome ON public.activity_fetch_job USING btree (outcome, reason, id DESC);

CREATE INDEX activity_fetch_job_of_athlete ON public.activity_fetch_job USING btree (athlete_id, outcome, id DESC) INCLUDE (reason);

CREATE INDEX activity_fetched ON public.activity USING btree (fetched_at);

CREATE INDEX activity_newest ON public.activity USING btree (start_date DESC, activity_id DESC);

CREATE INDEX activity_of_athlete ON public.activity USING btree (athlete_id, start_date DESC, activity_id DESC);

CREATE INDEX activity_tombstone_of_athlete ON public.activity_tombstone USING btree (athlete_id);

CREATE INDEX activity_tombstone_oldest ON public.activity_tombstone USING btree (deleted_at);

CREATE INDEX athlete_by_external_id ON public.athlete USING btree (external_id) WHERE (external_id IS NOT NULL);

CREATE INDEX athlete_hidden ON public.athlete USING btree (athlete_id) WHERE (hidden_since IS NOT NULL);

CREATE INDEX athlete_schedule_cooldown ON public.athlete_schedule USING btree (cooldown_until);

CREATE INDEX audit_entry_of_athlete ON public.audit_entry USING btree (athlete_id) WHERE (athlete_id IS NOT NULL);

CREATE INDEX audit_entry_oldest ON public.audit_entry USING btree (at);

CREATE INDEX bulk_change_of_athlete ON public.bulk_change USING btree (athlete_id) WHERE (athlete_id IS NOT NULL);

CREATE INDEX change_of_activity ON public.change USING btree (activity_id, "position");

CREATE INDEX change_of_athlete ON public.change USING btree (athlete_id, "position");

CREATE INDEX delivery_attempt_failed ON public.delivery_attempt USING btree (endpoint_id, id DESC) WHERE (result <> 'delivered'::text);

CREATE INDEX delivery_attempt_of_delivery ON public.delivery_attempt USING btree (delivery_id);

CREATE INDEX delivery_attempt_of_endpoint ON public.delivery_attempt USING btree (endpoint_id, id DESC);

CREATE INDEX delivery_attempt_recent ON public.delivery_attempt USING btree (endpoint_id, at);

CREATE INDEX delivery_line ON public.delivery USING btree (endpoint_id, line, id) WHERE (state = 'waiting'::text);

CREATE INDEX delivery_of_activity ON public.delivery USING btree (activity_id, id);

CREATE INDEX delivery_of_athlete ON public.delivery USING btree (athlete_id);

CREATE INDEX delivery_of_change ON public.delivery USING btree (endpoint_id, change_id) WHERE (state = 'waiting'::text);

CREATE INDEX delivery_settled ON public.delivery USING btree (settled_at) WHERE (state <> 'waiting'::text);

CREATE INDEX delivery_waiting ON public.delivery USING btree (endpoint_id, created_at) WHERE (state = 'waiting'::text);

CREATE INDEX fetch_attempt_of_job ON public.fetch_attempt USING btree (job_id, id);

CREATE INDEX fetch_request_by_job ON public.fetch_request USING btree (job_id, id);

CREATE INDEX job_claim_of_process ON public.job_claim USING btree (process_id);

CREATE INDEX lane_due ON public.lane USING btree (reason, due_at) WHERE (due_at IS NOT NULL);

CREATE INDEX list_visit_athlete ON public.list_visit USING btree (athlete_id);

CREATE INDEX list_visit_next ON public.list_visit USING btree (walk_id, not_before, athlete_id);

CREATE INDEX list_walk_of_athlete ON public.list_walk USING btree (athlete_id);

CREATE INDEX list_walk_open ON public.list_walk USING btree (stepped_at) WHERE ((kind = 'polling'::text) OR (check_due_at IS NOT NULL));

CREATE UNIQUE INDEX list_walk_polling ON public.list_walk USING btree (kind) WHERE (kind = 'polling'::text);

CREATE INDEX sync_item_of_activity ON public.sync_item USING btree (activity_id);

CREATE INDEX sync_item_unsettled ON public.sync_item USING btree (sync_id, athlete_id) WHERE (NOT settled);

CREATE INDEX webhook_event_of_athlete ON public.webhook_event USING btree (owner_id, received_at DESC, id DESC);

CREATE INDEX webhook_event_received ON public.webhook_event USING btree (received_at DESC, id DESC);

CREATE INDEX webhook_event_repeated ON public.webhook_event USING btree (last_received_at) WHERE (deliveries > 1);

CREATE INDEX webhook_event_stale ON public.webhook_event USING btree (received_at DESC, id DESC) WHERE (result = 'stale'::event_result);

CREATE VIEW "ActivityFetchJob" AS
 SELECT r.id,
    r.activity_id AS "activityId",
    r.athlete_id AS "athleteId",
    r.reason,
    r.force,
    'pending'::text AS status,
    f.attempts,
    f.max_attempts AS "maxAttempts",
        CASE
            WHEN r.aspect = 'delete'::event_aspect AND r.signed THEN f.start_after
            ELSE GREATEST(f.start_after, s.cooldown_until, ( SELECT budget_opens_at(budget_at(b.*, sync_now()), r.reason, sync_now()) AS budget_opens_at
               FROM rate_budget b))
        END AS "nextRunAt",
    f.error,
    r.created_at AS "createdAt",
    GREATEST(r.requested_at, f.changed_on) AS "updatedAt"
   FROM activity_fetch_job r
     JOIN fetch_queue() f(boss_job_id, activity_id, waiting, running, completed, ended, lane, retry_count, attempts, max_attempts, start_after, started_on, changed_on, error) ON f.boss_job_id = r.boss_job_id
     LEFT JOIN athlete_schedule s ON s.athlete_id = r.athlete_id
  WHERE f.waiting AND r.outcome IS NULL
UNION ALL
 SELECT r.id,
    r.activity_id AS "activityId",
    r.athlete_id AS "athleteId",
    r.reason,
    r.force,
    'working'::text AS status,
    f.attempts,
    f.max_attempts AS "maxAttempts",
    f.start_after AS "nextRunAt",
    f.error,
    r.created_at AS "createdAt",
    GREATEST(r.requested_at, f.changed_on) AS "updatedAt"
   FROM activity_fetch_job r
     JOIN fetch_queue() f(boss_job_id, activity_id, waiting, running, completed, ended, lane, retry_count, attempts, max_attempts, start_after, started_on, changed_on, error) ON f.boss_job_id = r.boss_job_id
  WHERE f.running AND r.outcome IS NULL
UNION ALL
 SELECT r.id,
    r.activity_id AS "activityId",
    r.athlete_id AS "athleteId",
    r.reason,
    r.force,
    'done'::text AS status,
    f.attempts,
    f.max_attempts AS "maxAttempts",
    f.start_after AS "nextRunAt",
    f.error,
    r.created_at AS "createdAt",
    GREATEST(r.requested_at, f.changed_on) AS "updatedAt"
   FROM activity_fetch_job r
     JOIN fetch_queue() f(boss_job_id, activity_id, waiting, running, completed, ended, lane, retry_count, attempts, max_attempts, start_after, started_on, changed_on, error) ON f.boss_job_id = r.boss_job_id
  WHERE f.completed AND (r.outcome = ANY (ARRAY['stored'::fetch_outcome, 'skipped'::fetch_outcome, 'deleted'::fetch_outcome, 'refuted'::fetch_outcome]))
UNION ALL
 SELECT r.id,
    r.activity_id AS "activityId",
    r.athlete_id AS "athleteId",
    r.reason,
    r.force,
    'failed'::text AS status,
    f.attempts,
    f.max_attempts AS "maxAttempts",
    LEAST(f.start_after, f.changed_on) AS "nextRunAt",
    f.error,
    r.created_at AS "createdAt",
    GREATEST(r.requested_at, f.changed_on) AS "updatedAt"
   FROM activity_fetch_job r
     JOIN fetch_queue() f(boss_job_id, activity_id, waiting, running, completed, ended, lane, retry_count, attempts, max_attempts, start_after, started_on, changed_on, error) ON f.boss_job_id = r.boss_job_id
  WHERE f.ended AND (r.outcome = ANY (ARRAY['notFound'::fetch_outcome, 'unauthorized'::fetch_outcome, 'forbidden'::fetch_outcome, 'unknownAthlete'::fetch_outcome, 'exhausted'::fetch_outcome, 'unusable'::fetch_outcome]));
ALTER VIEW "ActivityFetchJob" ALTER COLUMN force SET DEFAULT false;
ALTER VIEW "ActivityFetchJob" ALTER COLUMN status SET DEFAULT 'pending'::text;
ALTER VIEW "ActivityFetchJob" ALTER COLUMN attempts SET DEFAULT 0;
ALTER VIEW "ActivityFetchJob" ALTER COLUMN "maxAttempts" SET DEFAULT 5;
ALTER VIEW "ActivityFetchJob" ALTER COLUMN "nextRunAt" SET DEFAULT now();
ALTER VIEW "ActivityFetchJob" ALTER COLUMN "createdAt" SET DEFAULT now();
ALTER VIEW "ActivityFetchJob" ALTER COLUMN "updatedAt" SET DEFAULT now();

CREATE TRIGGER activity_delete_is_recorded AFTER DELETE ON activity REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION record_activity_changes();

CREATE TRIGGER activity_insert_is_recorded AFTER INSERT ON activity REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION record_activity_changes();

CREATE TRIGGER activity_update_is_recorded AFTER UPDATE ON activity REFERENCING OLD TABLE AS gone NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION record_activity_changes();

CREATE TRIGGER count_added AFTER INSERT ON activity_fetch_job REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_added_jobs();

CREATE TRIGGER count_changed AFTER UPDATE ON activity_fetch_job REFERENCING OLD TABLE AS removed NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_changed_jobs();

CREATE TRIGGER count_removed AFTER DELETE ON activity_fetch_job REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_removed_jobs();

CREATE TRIGGER count_truncated AFTER TRUNCATE ON activity_fetch_job FOR EACH STATEMENT EXECUTE FUNCTION forget_job_counts();

CREATE CONSTRAINT TRIGGER change_is_numbered AFTER INSERT ON change DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION number_change();

COMMENT ON VIEW "ActivityFetchJob" IS 'Fetch jobs with the documented fields; read only.';

COMMENT ON TABLE activity IS 'The application''s copy of the athletes'' activities.';

COMMENT ON TABLE api_token IS 'Tokens of applications; the token itself is not kept.';

COMMENT ON TABLE athlete IS 'Connected athletes with their encrypted tokens.';

COMMENT ON TABLE audit_entry IS 'Changes made through the admin interface.';

COMMENT ON TABLE browser_session IS 'Browsers that are signed in. Signing out removes the row.';

COMMENT ON TABLE bulk_change IS 'Changes of many jobs, and replays of many deliveries, that run in the background; the newest hundred.';

COMMENT ON TABLE change IS 'What the application must know, in commit order: one row for each effect.';

COMMENT ON TABLE duty IS 'Housekeeping that one process does for all, and who has it.';

COMMENT ON TABLE endpoint IS 'Addresses of the application that changes are sent to.';

COMMENT ON TABLE fetch_pause IS 'Reasons for which nothing is fetched until an operator resumes: who paused them, when and why.';

COMMENT ON TABLE fetch_request IS 'Requests for fetches that did not come from the provider, whose events are in the ledger.';

COMMENT ON TABLE history IS 'Runs, waits and drift by the minute, for charts.';

COMMENT ON TABLE job_count IS 'How many jobs of each reason and outcome there are: the sum over the rows.';

COMMENT ON TABLE list_visit IS 'Athletes whom a walk has still to visit, and how far it came with each.';

COMMENT ON TABLE list_walk IS 'Walks through athletes'' lists: one row for the polling sweeps, one for each manual sync.';

COMMENT ON TABLE polling_difference IS 'Differences between list and store that a sweep asked to be fetched again.';

COMMENT ON TABLE subscription IS 'Subscriptions created or listed through this service; others are not trusted.';

COMMENT ON TABLE sync_item IS 'Fetches that running manual syncs requested.';

COMMENT ON TABLE used_oauth_state IS 'States that came back from the provider; each is accepted once.';
