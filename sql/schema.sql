-- The schema "public" as the migrations make it, for reading and for review. Written by
-- npm run schema:dump; the tests compare it with a database that was migrated from nothing.

CREATE OR REPLACE FUNCTION public.accept_events(p_owners bigint[], p_activities bigint[], p_athletes bigint[], p_aspects event_aspect[], p_times timestamp with time zone[], p_subscriptions bigint[], p_updates jsonb[])
 RETURNS SETOF fetch_result
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET enable_material TO 'off'
 SET enable_bitmapscan TO 'off'
 SET jit TO 'off'
AS $function$
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
$function$
;

CREATE OR REPLACE FUNCTION public.add_requests(p_requests fetch_request[])
 RETURNS SETOF fetch_result
 LANGUAGE plpgsql
AS $function$
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
$function$
;

CREATE OR REPLACE FUNCTION public.background_share(p_calls integer)
 RETURNS integer
 LANGUAGE sql
 IMMUTABLE
AS $function$ SELECT CASE WHEN p_calls >= 1 THEN greatest(floor(p_calls * 0.9)::integer, 1) ELSE p_calls END $function$
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

CREATE OR REPLACE FUNCTION public.boss_complete(text, uuid[], jsonb, text[], OUT o_ids uuid[])
 RETURNS uuid[]
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
DECLARE
  v_row record;
BEGIN
  
    WITH results AS (
      UPDATE pgboss.j3646625edd5531835dcf04581edab1650b87adf93da888ff7a7ae16b
      SET completed_on = pgboss.job_now(),
        state = 'completed',
        output = $3::jsonb,
        blocked = blocked,
        pending_dependencies = pending_dependencies
      WHERE name = $1
        AND id = ANY($2::uuid[])
        AND state = 'active'
        AND state = 'active'
        AND (id::text || ':' || retry_count::text) = ANY($4::text[])
      RETURNING id
    )
    SELECT COUNT(*), COALESCE(array_agg(id), '{}'::uuid[]) AS ids FROM results
   INTO v_row;
  o_ids := v_row.ids;
END
$function$
;

CREATE OR REPLACE FUNCTION public.boss_delete(text, uuid[], OUT o_ids uuid[])
 RETURNS uuid[]
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
DECLARE
  v_row record;
BEGIN
  
    WITH results as (
      DELETE FROM pgboss.j3646625edd5531835dcf04581edab1650b87adf93da888ff7a7ae16b
      WHERE name = $1
        AND id = ANY($2::uuid[])
        
      RETURNING id
    )
    SELECT COUNT(*), COALESCE(array_agg(id), '{}'::uuid[]) AS ids FROM results
   INTO v_row;
  o_ids := v_row.ids;
END
$function$
;

CREATE OR REPLACE FUNCTION public.boss_fetch(integer, integer, OUT o_id uuid, OUT o_activity_id bigint, OUT o_retry_count integer, OUT o_retry_limit integer, OUT o_start_after timestamp with time zone)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
DECLARE
  v_row record;
BEGIN
  
      WITH
      
      
      
      next AS (
        SELECT j.id
        FROM pgboss.j3646625edd5531835dcf04581edab1650b87adf93da888ff7a7ae16b j
        WHERE j.name = 'activity-fetch'
          AND j.state < 'active'
          AND NOT j.blocked
          AND j.start_after <= pgboss.job_now()
          AND j.priority >= $1::int
          AND j.priority <= $2::int
        ORDER BY j.priority desc, j.created_on
        LIMIT 1
        FOR UPDATE OF j SKIP LOCKED
      )
      
      
      UPDATE pgboss.j3646625edd5531835dcf04581edab1650b87adf93da888ff7a7ae16b j SET
        state = 'active',
        started_on = pgboss.job_now(),
        heartbeat_on = pgboss.job_now(),
        retry_count = CASE WHEN started_on IS NOT NULL THEN retry_count + 1 ELSE retry_count END
      FROM next
      WHERE name = 'activity-fetch' AND j.id = next.id
      
      
      RETURNING j.id, name, data, retry_count as "retryCount", expire_seconds as "expireInSeconds", heartbeat_seconds as "heartbeatSeconds", group_id as "groupId", group_tier as "groupTier",
  policy,
  state,
  priority,
  retry_limit as "retryLimit",
  retry_delay as "retryDelay",
  retry_backoff as "retryBackoff",
  retry_delay_max as "retryDelayMax",
  start_after as "startAfter",
  started_on as "startedOn",
  singleton_key as "singletonKey",
  singleton_on as "singletonOn",
  deletion_seconds as "deleteAfterSeconds",
  heartbeat_on as "heartbeatOn",
  created_on as "createdOn",
  completed_on as "completedOn",
  keep_until as "keepUntil",
  dead_letter as "deadLetter",
  blocked,
  blocking,
  pending_dependencies as "pendingDependencies",
  output,
  source_name as "sourceName",
  source_id as "sourceId",
  source_created_on as "sourceCreatedOn",
  source_retry_count as "sourceRetryCount",
  source_output as "sourceOutput",
  source_root_id as "sourceRootId"

     INTO v_row;
  o_id := v_row.id; o_activity_id := v_row."singletonKey"; o_retry_count := v_row."retryCount";
  o_retry_limit := v_row."retryLimit"; o_start_after := v_row."startAfter";
END
$function$
;

CREATE OR REPLACE FUNCTION public.boss_insert_fetch(text, OUT o_sent boolean)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
DECLARE
  v_row record;
BEGIN
  
    INSERT INTO pgboss.j3646625edd5531835dcf04581edab1650b87adf93da888ff7a7ae16b (
      id,
      name,
      data,
      priority,
      start_after,
      created_on,
      singleton_key,
      singleton_on,
      group_id,
      group_tier,
      expire_seconds,
      deletion_seconds,
      keep_until,
      retry_limit,
      retry_delay,
      retry_backoff,
      retry_delay_max,
      policy,
      dead_letter,
      heartbeat_seconds,
      blocked,
      blocking,
      pending_dependencies
    )
    SELECT
      COALESCE(id, gen_random_uuid()) as id,
      'activity-fetch' as name,
      data,
      COALESCE(priority, 0) as priority,
      j.start_after,
      pgboss.job_now() as created_on,
      "singletonKey",
      CASE
        
        WHEN "singletonSeconds" IS NOT NULL THEN 'epoch'::timestamp + '1s'::interval * ("singletonSeconds"::float8 * floor(( date_part('epoch', pgboss.job_now()) + COALESCE("singletonOffset",0)::float8) / "singletonSeconds"::float8 ))
        ELSE NULL
        END as singleton_on,
      "groupId" as group_id,
      "groupTier" as group_tier,
      COALESCE("expireInSeconds", q.expire_seconds) as expire_seconds,
      COALESCE("deleteAfterSeconds", q.deletion_seconds) as deletion_seconds,
      j.start_after + (COALESCE("retentionSeconds", q.retention_seconds) * interval '1s') as keep_until,
      COALESCE("retryLimit", q.retry_limit) as retry_limit,
      COALESCE("retryDelay", q.retry_delay) as retry_delay,
      COALESCE("retryBackoff", q.retry_backoff, false) as retry_backoff,
      COALESCE("retryDelayMax", q.retry_delay_max) as retry_delay_max,
      q.policy,
      COALESCE("deadLetter", q.dead_letter) as dead_letter,
      COALESCE("heartbeatSeconds", q.heartbeat_seconds) as heartbeat_seconds,
      COALESCE(blocked, false) as blocked,
      COALESCE(blocking, false) as blocking,
      COALESCE("pendingDependencies", 0) as pending_dependencies
    FROM (
      SELECT *,
        CASE
          WHEN (right("startAfter", 1) = 'Z' OR "startAfter" ~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}') THEN CAST("startAfter" as timestamp with time zone)
          ELSE pgboss.job_now() + CAST(COALESCE("startAfter",'0') as interval)
          END as start_after
      FROM json_to_recordset($1::text::json) as x (
        id uuid,
        priority integer,
        data jsonb,
        "startAfter" text,
        "retryLimit" integer,
        "retryDelay" integer,
        "retryDelayMax" integer,
        "retryBackoff" boolean,
        "singletonKey" text,
        "singletonSeconds" integer,
        "singletonOffset" integer,
        
        "groupId" text,
        "groupTier" text,
        "expireInSeconds" integer,
        "deleteAfterSeconds" integer,
        "retentionSeconds" integer,
        "deadLetter" text,
        "heartbeatSeconds" integer,
        blocked boolean,
        blocking boolean,
        "pendingDependencies" integer
      )
    ) j
    JOIN pgboss.queue q ON q.name = 'activity-fetch'
    ON CONFLICT DO NOTHING
    
  ;
  o_sent := true;
END
$function$
;

CREATE OR REPLACE FUNCTION public.boss_insert_thumbnail(text, OUT o_sent boolean)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
DECLARE
  v_row record;
BEGIN
  
    INSERT INTO pgboss.ja9988a768a58f3b8767623d58f9846e4384b1c4027794fed9c7ed9a5 (
      id,
      name,
      data,
      priority,
      start_after,
      created_on,
      singleton_key,
      singleton_on,
      group_id,
      group_tier,
      expire_seconds,
      deletion_seconds,
      keep_until,
      retry_limit,
      retry_delay,
      retry_backoff,
      retry_delay_max,
      policy,
      dead_letter,
      heartbeat_seconds,
      blocked,
      blocking,
      pending_dependencies
    )
    SELECT
      COALESCE(id, gen_random_uuid()) as id,
      'thumbnail' as name,
      data,
      COALESCE(priority, 0) as priority,
      j.start_after,
      pgboss.job_now() as created_on,
      "singletonKey",
      CASE
        
        WHEN "singletonSeconds" IS NOT NULL THEN 'epoch'::timestamp + '1s'::interval * ("singletonSeconds"::float8 * floor(( date_part('epoch', pgboss.job_now()) + COALESCE("singletonOffset",0)::float8) / "singletonSeconds"::float8 ))
        ELSE NULL
        END as singleton_on,
      "groupId" as group_id,
      "groupTier" as group_tier,
      COALESCE("expireInSeconds", q.expire_seconds) as expire_seconds,
      COALESCE("deleteAfterSeconds", q.deletion_seconds) as deletion_seconds,
      j.start_after + (COALESCE("retentionSeconds", q.retention_seconds) * interval '1s') as keep_until,
      COALESCE("retryLimit", q.retry_limit) as retry_limit,
      COALESCE("retryDelay", q.retry_delay) as retry_delay,
      COALESCE("retryBackoff", q.retry_backoff, false) as retry_backoff,
      COALESCE("retryDelayMax", q.retry_delay_max) as retry_delay_max,
      q.policy,
      COALESCE("deadLetter", q.dead_letter) as dead_letter,
      COALESCE("heartbeatSeconds", q.heartbeat_seconds) as heartbeat_seconds,
      COALESCE(blocked, false) as blocked,
      COALESCE(blocking, false) as blocking,
      COALESCE("pendingDependencies", 0) as pending_dependencies
    FROM (
      SELECT *,
        CASE
          WHEN (right("startAfter", 1) = 'Z' OR "startAfter" ~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}') THEN CAST("startAfter" as timestamp with time zone)
          ELSE pgboss.job_now() + CAST(COALESCE("startAfter",'0') as interval)
          END as start_after
      FROM json_to_recordset($1::text::json) as x (
        id uuid,
        priority integer,
        data jsonb,
        "startAfter" text,
        "retryLimit" integer,
        "retryDelay" integer,
        "retryDelayMax" integer,
        "retryBackoff" boolean,
        "singletonKey" text,
        "singletonSeconds" integer,
        "singletonOffset" integer,
        
        "groupId" text,
        "groupTier" text,
        "expireInSeconds" integer,
        "deleteAfterSeconds" integer,
        "retentionSeconds" integer,
        "deadLetter" text,
        "heartbeatSeconds" integer,
        blocked boolean,
        blocking boolean,
        "pendingDependencies" integer
      )
    ) j
    JOIN pgboss.queue q ON q.name = 'thumbnail'
    ON CONFLICT DO NOTHING
    
  ;
  o_sent := true;
END
$function$
;

CREATE OR REPLACE FUNCTION public.boss_job(p_id uuid, p_lane integer, p_activity_id bigint, p_athlete_id bigint)
 RETURNS text
 LANGUAGE sql
 STABLE
AS $function$
  SELECT '{"id":"' || p_id || '","priority":' || p_lane || ',"singletonKey":"' || p_activity_id || '","groupId":"' || p_athlete_id
    || '","data":{"activityId":"' || p_activity_id || '"}}'
$function$
;

CREATE OR REPLACE FUNCTION public.boss_update_fetch(text, OUT o_id uuid)
 RETURNS uuid
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
DECLARE
  v_row record;
BEGIN
  
    WITH o AS (SELECT $1::text::jsonb AS data),
    target AS (
      SELECT job.id
      FROM pgboss.j3646625edd5531835dcf04581edab1650b87adf93da888ff7a7ae16b job, o
      WHERE job.name = 'activity-fetch'
        AND job.state < 'active'
        AND job.id = (o.data->>'id')::uuid
      
    ),
    upd AS (
      UPDATE pgboss.j3646625edd5531835dcf04581edab1650b87adf93da888ff7a7ae16b job
      SET data = CASE WHEN (o.data -> 'data') IS NOT NULL THEN o.data->'data' ELSE job.data END,
          priority = COALESCE((o.data->>'priority')::int, job.priority),
          start_after = 
        CASE WHEN (o.data -> 'startAfter') IS NOT NULL
          THEN CASE WHEN (right(o.data->>'startAfter', 1) = 'Z' OR o.data->>'startAfter' ~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}')
                 THEN (o.data->>'startAfter')::timestamptz
                 ELSE pgboss.job_now() + CAST(o.data->>'startAfter' AS interval) END
          ELSE job.start_after END,
          keep_until = CASE
            WHEN (o.data -> 'retentionSeconds') IS NOT NULL
              THEN (
        CASE WHEN (o.data -> 'startAfter') IS NOT NULL
          THEN CASE WHEN (right(o.data->>'startAfter', 1) = 'Z' OR o.data->>'startAfter' ~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}')
                 THEN (o.data->>'startAfter')::timestamptz
                 ELSE pgboss.job_now() + CAST(o.data->>'startAfter' AS interval) END
          ELSE job.start_after END) + ((o.data->>'retentionSeconds')::int * interval '1s')
            WHEN (o.data -> 'startAfter') IS NOT NULL
              THEN (
        CASE WHEN (o.data -> 'startAfter') IS NOT NULL
          THEN CASE WHEN (right(o.data->>'startAfter', 1) = 'Z' OR o.data->>'startAfter' ~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}')
                 THEN (o.data->>'startAfter')::timestamptz
                 ELSE pgboss.job_now() + CAST(o.data->>'startAfter' AS interval) END
          ELSE job.start_after END) + (job.keep_until - job.start_after)
            ELSE job.keep_until END,
          expire_seconds = COALESCE((o.data->>'expireInSeconds')::int, job.expire_seconds),
          deletion_seconds = COALESCE((o.data->>'deleteAfterSeconds')::int, job.deletion_seconds),
          retry_limit = COALESCE((o.data->>'retryLimit')::int, job.retry_limit),
          retry_delay = COALESCE((o.data->>'retryDelay')::int, job.retry_delay),
          retry_backoff = COALESCE((o.data->>'retryBackoff')::bool, job.retry_backoff),
          retry_delay_max = CASE WHEN (o.data -> 'retryDelayMax') IS NOT NULL THEN (o.data->>'retryDelayMax')::int ELSE job.retry_delay_max END,
          dead_letter = CASE WHEN (o.data -> 'deadLetter') IS NOT NULL THEN o.data->>'deadLetter' ELSE job.dead_letter END,
          heartbeat_seconds = CASE WHEN (o.data -> 'heartbeatSeconds') IS NOT NULL THEN (o.data->>'heartbeatSeconds')::int ELSE job.heartbeat_seconds END,
          group_id = CASE WHEN (o.data -> 'groupId') IS NOT NULL THEN o.data->>'groupId' ELSE job.group_id END,
          group_tier = CASE WHEN (o.data -> 'groupTier') IS NOT NULL THEN o.data->>'groupTier' ELSE job.group_tier END
      FROM o
      WHERE job.id IN (SELECT id FROM target)
        AND job.state < 'active'
      RETURNING job.id, job.start_after
    )
    SELECT id FROM upd
   INTO v_row;
  o_id := v_row.id;
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

CREATE OR REPLACE FUNCTION public.claim_runs(p_most integer, p_hold_ms integer, p_mark uuid)
 RETURNS TABLE(claim text, wait_ms double precision, waits_for text, boss_job_id uuid, retry_count integer, attempts integer, job_id bigint, activity_id bigint, athlete_id bigint, reason text, force boolean, aspect event_aspect, version integer, needs_call boolean, known_athlete boolean, known_activity boolean, access_token text, token_expires_at timestamp with time zone, scope text, athlete_state text, started_at text, requested_at timestamp with time zone, waited_ms double precision)
 LANGUAGE plpgsql
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET enable_material TO 'off'
 SET jit TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_sort TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
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
    -- Somebody else spends too. Of our own calls those under way may not be in the provider's figure yet.
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

CREATE OR REPLACE FUNCTION public.due_thumbnails()
 RETURNS TABLE(id uuid)
 LANGUAGE sql
 STABLE
AS $function$
  SELECT t.id FROM pgboss.job t
  WHERE t.name = 'thumbnail' AND t.state < 'active' AND NOT t.blocked AND t.start_after <= sync_now()
  ORDER BY t.priority DESC, t.created_on, t.start_after
$function$
;

CREATE OR REPLACE FUNCTION public.end_cooldown(p_athlete_id bigint, p_job uuid, p_cooldown_ms integer, p_ago_ms integer)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
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
$function$
;

CREATE OR REPLACE FUNCTION public.end_lost_cooldowns(p_longest_ms integer)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
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
$function$
;

CREATE OR REPLACE FUNCTION public.event_order(p_event_time timestamp with time zone, p_newest timestamp with time zone, p_now timestamp with time zone)
 RETURNS timestamp with time zone
 LANGUAGE sql
 STABLE
AS $function$ SELECT CASE WHEN p_event_time > p_now + interval '1 day' THEN greatest(p_newest, date_trunc('second', p_now)) ELSE p_event_time END $function$
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

CREATE OR REPLACE FUNCTION public.join_request(q fetch_request)
 RETURNS fetch_result
 LANGUAGE plpgsql
AS $function$
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
$function$
;

CREATE OR REPLACE FUNCTION public.lane_of(p_lane integer, p_reason text)
 RETURNS integer
 LANGUAGE sql
 IMMUTABLE
AS $function$ SELECT p_lane * 4 + CASE p_reason WHEN 'webhook' THEN 1 WHEN 'manual' THEN 2 ELSE 3 END $function$
;

CREATE OR REPLACE FUNCTION public.lane_of_job(p_job_id bigint)
 RETURNS integer
 LANGUAGE sql
 STABLE
AS $function$
  SELECT CASE WHEN j.aspect = 'delete' THEN lane_of(0, 'webhook') ELSE lane_of(s.lane, j.reason) END
  FROM activity_fetch_job j, LATERAL (SELECT s.lane FROM athlete_schedule s WHERE s.athlete_id = j.athlete_id OFFSET 0) s
  WHERE j.id = p_job_id
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

CREATE OR REPLACE FUNCTION public.lock_schedule(p_athletes bigint[])
 RETURNS void
 LANGUAGE plpgsql
AS $function$
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
$function$
;

CREATE OR REPLACE FUNCTION public.lost_runs(p_marks uuid[])
 RETURNS TABLE(boss_job_id uuid, retry_count integer, attempts integer, job_id bigint, started_at text, version integer)
 LANGUAGE plpgsql
AS $function$
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
$function$
;

CREATE OR REPLACE FUNCTION public.next_turn(b rate_budget, p_at timestamp with time zone, OUT lane integer, OUT reason text, OUT wake_at timestamp with time zone, OUT waits_for text)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
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
$function$
;

CREATE OR REPLACE FUNCTION public.reason_of_lane(p_priority integer)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
AS $function$ SELECT CASE p_priority % 4 WHEN 1 THEN 'webhook' WHEN 2 THEN 'manual' ELSE 'polling' END $function$
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

CREATE OR REPLACE FUNCTION public.reopen_jobs(p_job_ids bigint[])
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
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
$function$
;

CREATE OR REPLACE FUNCTION public.request_fetches(p_requests jsonb)
 RETURNS SETOF fetch_result
 LANGUAGE plpgsql
AS $function$
DECLARE
  v_requests fetch_request[];
BEGIN
  SELECT array_agg(ROW(x."activityId", x."athleteId", x.reason, x.force, x.aspect, x."eventTime")::fetch_request) INTO v_requests
  FROM jsonb_to_recordset(p_requests)
    AS x ("activityId" bigint, "athleteId" bigint, reason text, force boolean, aspect event_aspect, "eventTime" timestamptz);
  PERFORM lock_schedule(ARRAY(SELECT DISTINCT r.athlete_id FROM unnest(v_requests) r));
  RETURN QUERY SELECT * FROM add_requests(v_requests);
END
$function$
;

CREATE OR REPLACE FUNCTION public.rest_lane(p_lane integer)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
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
$function$
;

CREATE OR REPLACE FUNCTION public.route_of(p_detail json)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
AS $function$ SELECT coalesce(nullif(p_detail #>> '{map,polyline}', ''), nullif(p_detail #>> '{map,summary_polyline}', '')) $function$
;

CREATE OR REPLACE FUNCTION public.run_name(p_boss_job_id uuid, p_retry_count integer)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
AS $function$ SELECT p_boss_job_id || ':' || p_retry_count $function$
;

CREATE OR REPLACE FUNCTION public.save_activity(p_activity_id bigint, p_athlete_id bigint, p_name text, p_sport_type text, p_start_date timestamp with time zone, p_timezone text, p_distance_m double precision, p_moving_time_s integer, p_elapsed_time_s integer, p_elevation_gain_m double precision, p_private boolean, p_detail json, p_run_started_at timestamp with time zone)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
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

CREATE OR REPLACE FUNCTION public.settle_run(p_job_id bigint, p_boss_job_id uuid, p_version integer, p_outcome fetch_outcome, p_athlete_id bigint, p_cooldown_ms integer, p_ago_ms integer)
 RETURNS text
 LANGUAGE plpgsql
AS $function$
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

CREATE OR REPLACE FUNCTION public.store_runs(p_runs jsonb, p_details json)
 RETURNS text[]
 LANGUAGE plpgsql
 SET enable_seqscan TO 'off'
 SET enable_sort TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET enable_material TO 'off'
 SET enable_bitmapscan TO 'off'
 SET jit TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
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
$function$
;

CREATE OR REPLACE FUNCTION public.stronger_reason(a text, b text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
AS $function$ SELECT CASE WHEN 'webhook' IN (a, b) THEN 'webhook' WHEN 'manual' IN (a, b) THEN 'manual' ELSE 'polling' END $function$
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

-- FUNCTION public.time_ordered_uuid() RETURNS uuid: its body depends on the version of the server

CREATE OR REPLACE FUNCTION public.turn_lane(p_lane integer, p_at timestamp with time zone, p_until timestamp with time zone, p_mark uuid, p_job uuid)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
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
$function$
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

CREATE OR REPLACE FUNCTION public.wake_forgotten_lanes(p_longest_ms integer)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
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
$function$
;

CREATE OR REPLACE FUNCTION public.wake_lane(p_lane integer, p_at timestamp with time zone)
 RETURNS void
 LANGUAGE sql
AS $function$
  UPDATE athlete_schedule s SET
    webhook_due_at = CASE p_lane % 4 WHEN 1 THEN least(s.webhook_due_at, greatest(p_at, s.cooldown_until)) ELSE s.webhook_due_at END,
    manual_due_at = CASE p_lane % 4 WHEN 2 THEN least(s.manual_due_at, greatest(p_at, s.cooldown_until)) ELSE s.manual_due_at END,
    polling_due_at = CASE p_lane % 4 WHEN 3 THEN least(s.polling_due_at, greatest(p_at, s.cooldown_until)) ELSE s.polling_due_at END
  WHERE s.lane = p_lane / 4
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
  boss_job_id uuid DEFAULT time_ordered_uuid() NOT NULL,
  asked_during text,
  outcome fetch_outcome,
  created_at timestamp with time zone DEFAULT sync_now() NOT NULL,
  requested_at timestamp with time zone DEFAULT sync_now() NOT NULL,
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
  CONSTRAINT athlete_pkey PRIMARY KEY (athlete_id),
  CONSTRAINT athlete_id_positive CHECK (athlete_id > 0),
  CONSTRAINT athlete_state_known CHECK (state = ANY (ARRAY['healthy'::text, 'reconnect'::text, 'scope'::text]))
);

CREATE TABLE athlete_schedule (
  athlete_id bigint NOT NULL,
  lane integer GENERATED BY DEFAULT AS IDENTITY NOT NULL,
  cooldown_until timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
  webhook_due_at timestamp with time zone,
  manual_due_at timestamp with time zone,
  polling_due_at timestamp with time zone,
  claim_mark uuid,
  claimed_jobs uuid[],
  CONSTRAINT athlete_schedule_pkey PRIMARY KEY (athlete_id),
  CONSTRAINT athlete_schedule_lane_once UNIQUE (lane)
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
  CONSTRAINT audit_entry_who_known CHECK (who = ANY (ARRAY['admin'::text, 'read'::text, 'session'::text]))
);

CREATE TABLE duty (
  name text NOT NULL,
  holder uuid NOT NULL,
  held_until timestamp with time zone NOT NULL,
  CONSTRAINT duty_pkey PRIMARY KEY (name)
);

CREATE TABLE fetch_attempt (
  id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
  job_id bigint NOT NULL,
  started_at timestamp with time zone NOT NULL,
  ended_at timestamp with time zone DEFAULT sync_now() NOT NULL,
  result text NOT NULL,
  error text NOT NULL,
  CONSTRAINT fetch_attempt_pkey PRIMARY KEY (id),
  CONSTRAINT fetch_attempt_of_job FOREIGN KEY (job_id) REFERENCES activity_fetch_job(id) ON DELETE CASCADE,
  CONSTRAINT fetch_attempt_result_known CHECK (result = ANY (ARRAY['retry'::text, 'put_back'::text, 'failed'::text]))
);

CREATE TABLE history (
  minute timestamp with time zone NOT NULL,
  measure text NOT NULL,
  bucket double precision NOT NULL,
  n bigint NOT NULL,
  CONSTRAINT history_pkey PRIMARY KEY (minute, measure, bucket)
);

CREATE TABLE job_count (
  reason text NOT NULL,
  outcome fetch_outcome,
  jobs bigint NOT NULL
);

CREATE TABLE manual_sync (
  id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
  athlete_id bigint,
  after_s bigint,
  before_s bigint NOT NULL,
  force boolean NOT NULL,
  state text DEFAULT 'running'::text NOT NULL,
  error text,
  athletes integer NOT NULL,
  athletes_listed integer DEFAULT 0 NOT NULL,
  athletes_failed integer DEFAULT 0 NOT NULL,
  pages integer DEFAULT 0 NOT NULL,
  listed integer DEFAULT 0 NOT NULL,
  queued integer DEFAULT 0 NOT NULL,
  fetched integer DEFAULT 0 NOT NULL,
  fetches_failed integer DEFAULT 0 NOT NULL,
  open_items integer DEFAULT 0 NOT NULL,
  busiest_athlete integer DEFAULT 0 NOT NULL,
  list_due_at timestamp with time zone DEFAULT '-infinity'::timestamp with time zone,
  count_due_at timestamp with time zone DEFAULT '-infinity'::timestamp with time zone,
  stepped_at timestamp with time zone DEFAULT sync_now() NOT NULL,
  holder uuid,
  lease_until timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
  created_at timestamp with time zone DEFAULT sync_now() NOT NULL,
  finished_at timestamp with time zone,
  CONSTRAINT manual_sync_pkey PRIMARY KEY (id),
  CONSTRAINT manual_sync_of_athlete FOREIGN KEY (athlete_id) REFERENCES athlete(athlete_id) ON DELETE CASCADE,
  CONSTRAINT manual_sync_state_known CHECK (state = ANY (ARRAY['running'::text, 'finished'::text, 'cancelled'::text, 'failed'::text]))
);

CREATE TABLE manual_sync_item (
  sync_id bigint NOT NULL,
  activity_id bigint NOT NULL,
  athlete_id bigint NOT NULL,
  settled boolean DEFAULT false NOT NULL,
  joined boolean NOT NULL,
  version integer NOT NULL,
  CONSTRAINT manual_sync_item_pkey PRIMARY KEY (sync_id, activity_id),
  CONSTRAINT manual_sync_item_of_job FOREIGN KEY (activity_id) REFERENCES activity_fetch_job(activity_id) ON DELETE CASCADE,
  CONSTRAINT manual_sync_item_of_sync FOREIGN KEY (sync_id) REFERENCES manual_sync(id) ON DELETE CASCADE
);

CREATE TABLE manual_sync_walk (
  sync_id bigint NOT NULL,
  athlete_id bigint NOT NULL,
  not_before timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
  before_s bigint NOT NULL,
  page integer DEFAULT 1 NOT NULL,
  boundary bigint[] DEFAULT '{}'::bigint[] NOT NULL,
  failures integer DEFAULT 0 NOT NULL,
  CONSTRAINT manual_sync_walk_pkey PRIMARY KEY (sync_id, athlete_id),
  CONSTRAINT manual_sync_walk_of_athlete FOREIGN KEY (athlete_id) REFERENCES athlete(athlete_id) ON DELETE CASCADE,
  CONSTRAINT manual_sync_walk_of_sync FOREIGN KEY (sync_id) REFERENCES manual_sync(id) ON DELETE CASCADE
);

CREATE TABLE polling_difference (
  activity_id bigint NOT NULL,
  summary text NOT NULL,
  asked_at timestamp with time zone NOT NULL,
  CONSTRAINT polling_difference_pkey PRIMARY KEY (activity_id),
  CONSTRAINT polling_difference_of_activity FOREIGN KEY (activity_id) REFERENCES activity(activity_id) ON DELETE CASCADE
);

CREATE TABLE polling_sweep (
  one_row boolean DEFAULT true NOT NULL,
  started_at timestamp with time zone,
  finished_at timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
  not_before timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
  holder uuid,
  lease_until timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
  athletes integer DEFAULT 0 NOT NULL,
  failed integer DEFAULT 0 NOT NULL,
  queued integer DEFAULT 0 NOT NULL,
  CONSTRAINT polling_sweep_pkey PRIMARY KEY (one_row),
  CONSTRAINT polling_sweep_one_row CHECK (one_row)
);

CREATE TABLE polling_visit (
  athlete_id bigint NOT NULL,
  not_before timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
  before_s bigint,
  page integer DEFAULT 1 NOT NULL,
  boundary bigint[] DEFAULT '{}'::bigint[] NOT NULL,
  known_in_a_row integer DEFAULT 0 NOT NULL,
  failures integer DEFAULT 0 NOT NULL,
  CONSTRAINT polling_visit_pkey PRIMARY KEY (athlete_id),
  CONSTRAINT polling_visit_of_athlete FOREIGN KEY (athlete_id) REFERENCES athlete(athlete_id) ON DELETE CASCADE
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

CREATE TABLE schema_migration (
  name text NOT NULL,
  applied_at timestamp with time zone DEFAULT now() NOT NULL,
  CONSTRAINT schema_migration_pkey PRIMARY KEY (name)
);

CREATE TABLE subscription (
  subscription_id bigint NOT NULL,
  callback_url text NOT NULL,
  known_since timestamp with time zone DEFAULT sync_now() NOT NULL,
  CONSTRAINT subscription_pkey PRIMARY KEY (subscription_id)
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

CREATE INDEX activity_newest ON public.activity USING btree (start_date DESC, activity_id DESC);

CREATE INDEX activity_of_athlete ON public.activity USING btree (athlete_id, start_date DESC, activity_id DESC);

CREATE INDEX activity_tombstone_of_athlete ON public.activity_tombstone USING btree (athlete_id);

CREATE INDEX activity_tombstone_oldest ON public.activity_tombstone USING btree (deleted_at);

CREATE INDEX athlete_schedule_manual ON public.athlete_schedule USING btree (manual_due_at) WHERE (manual_due_at IS NOT NULL);

CREATE INDEX athlete_schedule_polling ON public.athlete_schedule USING btree (polling_due_at) WHERE (polling_due_at IS NOT NULL);

CREATE INDEX athlete_schedule_webhook ON public.athlete_schedule USING btree (webhook_due_at) WHERE (webhook_due_at IS NOT NULL);

CREATE INDEX audit_entry_of_athlete ON public.audit_entry USING btree (athlete_id) WHERE (athlete_id IS NOT NULL);

CREATE INDEX audit_entry_oldest ON public.audit_entry USING btree (at);

CREATE INDEX fetch_attempt_of_job ON public.fetch_attempt USING btree (job_id, id);

CREATE INDEX manual_sync_item_of_activity ON public.manual_sync_item USING btree (activity_id);

CREATE INDEX manual_sync_item_unsettled ON public.manual_sync_item USING btree (sync_id, athlete_id) WHERE (NOT settled);

CREATE INDEX manual_sync_of_athlete ON public.manual_sync USING btree (athlete_id);

CREATE INDEX manual_sync_open ON public.manual_sync USING btree (stepped_at) WHERE (count_due_at IS NOT NULL);

CREATE INDEX manual_sync_walk_athlete ON public.manual_sync_walk USING btree (athlete_id);

CREATE INDEX manual_sync_walk_next ON public.manual_sync_walk USING btree (sync_id, not_before, athlete_id);

CREATE INDEX polling_visit_next ON public.polling_visit USING btree (not_before, athlete_id);

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
            WHEN r.aspect = 'delete'::event_aspect THEN f.start_after
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
  WHERE f.completed AND (r.outcome = ANY (ARRAY['stored'::fetch_outcome, 'skipped'::fetch_outcome, 'deleted'::fetch_outcome]))
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
  WHERE f.ended AND (r.outcome = ANY (ARRAY['notFound'::fetch_outcome, 'unauthorized'::fetch_outcome, 'forbidden'::fetch_outcome, 'unknownAthlete'::fetch_outcome, 'exhausted'::fetch_outcome]));
ALTER VIEW "ActivityFetchJob" ALTER COLUMN force SET DEFAULT false;
ALTER VIEW "ActivityFetchJob" ALTER COLUMN status SET DEFAULT 'pending'::text;
ALTER VIEW "ActivityFetchJob" ALTER COLUMN attempts SET DEFAULT 0;
ALTER VIEW "ActivityFetchJob" ALTER COLUMN "maxAttempts" SET DEFAULT 5;
ALTER VIEW "ActivityFetchJob" ALTER COLUMN "nextRunAt" SET DEFAULT now();
ALTER VIEW "ActivityFetchJob" ALTER COLUMN "createdAt" SET DEFAULT now();
ALTER VIEW "ActivityFetchJob" ALTER COLUMN "updatedAt" SET DEFAULT now();

CREATE TRIGGER count_added AFTER INSERT ON activity_fetch_job REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_added_jobs();

CREATE TRIGGER count_changed AFTER UPDATE ON activity_fetch_job REFERENCING OLD TABLE AS removed NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_changed_jobs();

CREATE TRIGGER count_removed AFTER DELETE ON activity_fetch_job REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_removed_jobs();

CREATE TRIGGER count_truncated AFTER TRUNCATE ON activity_fetch_job FOR EACH STATEMENT EXECUTE FUNCTION forget_job_counts();

COMMENT ON VIEW "ActivityFetchJob" IS 'Fetch jobs with the documented fields; read only.';

COMMENT ON TABLE activity IS 'The application''s copy of the athletes'' activities.';

COMMENT ON TABLE athlete IS 'Connected athletes with their encrypted tokens.';

COMMENT ON TABLE audit_entry IS 'Changes made through the admin interface.';

COMMENT ON TABLE duty IS 'Housekeeping that one process does for all, and who has it.';

COMMENT ON TABLE history IS 'Runs, waits and drift by the minute, for charts.';

COMMENT ON TABLE job_count IS 'How many jobs of each reason and outcome there are: the sum over the rows.';

COMMENT ON TABLE manual_sync IS 'Bulk syncs asked for by hand, with their progress.';

COMMENT ON TABLE polling_difference IS 'Differences between list and store that a sweep asked to be fetched again.';

COMMENT ON TABLE polling_sweep IS 'One row: the polling sweep under way, and when the last one finished.';

COMMENT ON TABLE polling_visit IS 'Athletes whom the polling sweep under way has still to visit.';

COMMENT ON TABLE subscription IS 'Subscriptions created or listed through this service; others are not trusted.';
