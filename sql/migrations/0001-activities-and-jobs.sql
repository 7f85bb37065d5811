-- What the service keeps: athletes, activities, thumbnails, what was asked for, and the ledger of
-- webhook deliveries. How a job stands is pg-boss's to say (schema pgboss); nothing here repeats it.

-- One clock for every decision in SQL: pg-boss's, which a test can set. The body is a string, so that
-- PostgreSQL records no dependency on pg-boss's schema and its upgrades stay free.
CREATE FUNCTION sync_now() RETURNS timestamptz LANGUAGE sql STABLE
AS $$ SELECT pgboss.job_now() $$;

-- The same clock, read anew after a wait for a lock (sync_now() stands still within a transaction).
CREATE FUNCTION sync_clock() RETURNS timestamptz LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
  IF current_setting('pgboss.test_clock', true) = 'on' THEN
    RETURN pgboss.job_now();
  END IF;
  RETURN clock_timestamp();
END
$$;

-- An id that follows those made before it (UUID version 7): the rows of one moment stand side by side in
-- pg-boss's index, however many there are. PostgreSQL makes them itself from 18 on.
DO $do$
BEGIN
  IF current_setting('server_version_num')::integer >= 180000 THEN
    CREATE FUNCTION time_ordered_uuid() RETURNS uuid LANGUAGE sql VOLATILE AS $$ SELECT uuidv7() $$;
  ELSE
    CREATE FUNCTION time_ordered_uuid() RETURNS uuid LANGUAGE sql VOLATILE
    AS $$
      SELECT encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
        PLACING substring(int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3) FROM 1 FOR 6), 52, 1), 53, 1), 'hex')::uuid
    $$;
  END IF;
END
$do$;

-- What happened to an activity, what became of the event, and what came of a request. Types rather than checks:
-- every statement that writes reads a table's checks anew.
CREATE TYPE event_aspect AS ENUM ('create', 'update', 'delete');
CREATE TYPE event_result AS ENUM ('accepted', 'stale');
CREATE TYPE fetch_outcome AS ENUM
  ('stored', 'skipped', 'deleted', 'notFound', 'unauthorized', 'forbidden', 'unknownAthlete', 'exhausted');

CREATE TABLE athlete (
  athlete_id       bigint      CONSTRAINT athlete_pkey PRIMARY KEY
                               CONSTRAINT athlete_id_positive CHECK (athlete_id > 0),
  name             text,
  access_token     text        NOT NULL, -- encrypted
  refresh_token    text        NOT NULL, -- encrypted
  token_expires_at timestamptz NOT NULL,
  scope            text        NOT NULL,
  state            text        NOT NULL DEFAULT 'healthy'
                               CONSTRAINT athlete_state_known CHECK (state IN ('healthy', 'reconnect', 'scope')),
  state_detail     text,
  connected_at     timestamptz NOT NULL DEFAULT sync_now(),
  updated_at       timestamptz NOT NULL DEFAULT sync_now()
);
COMMENT ON TABLE athlete IS 'Connected athletes with their encrypted tokens.';

CREATE TABLE activity (
  activity_id      bigint      CONSTRAINT activity_pkey PRIMARY KEY
                               CONSTRAINT activity_id_positive CHECK (activity_id > 0),
  athlete_id       bigint      NOT NULL,
  name             text        NOT NULL,
  sport_type       text        NOT NULL,
  start_date       timestamptz NOT NULL,
  timezone         text,
  distance_m       double precision NOT NULL DEFAULT 0,
  moving_time_s    integer     NOT NULL DEFAULT 0,
  elapsed_time_s   integer     NOT NULL DEFAULT 0,
  elevation_gain_m double precision NOT NULL DEFAULT 0,
  private          boolean     NOT NULL DEFAULT false,
  detail           json        NOT NULL, -- the provider's whole answer, letter for letter
  fetched_at       timestamptz NOT NULL DEFAULT sync_now()
);
-- Two rows to a page: an answer of that length stays in its row, and only longer ones are compressed or kept beside it.
ALTER TABLE activity SET (toast_tuple_target = 4080);
CREATE INDEX activity_newest ON activity (start_date DESC, activity_id DESC);
CREATE INDEX activity_of_athlete ON activity (athlete_id, start_date DESC, activity_id DESC);
COMMENT ON TABLE activity IS 'The application''s copy of the athletes'' activities.';

-- An activity's route in the provider's encoding: the whole one where there is one, else the summary; NULL: none.
CREATE FUNCTION route_of(p_detail json) RETURNS text LANGUAGE sql IMMUTABLE
AS $$ SELECT coalesce(nullif(p_detail #>> '{map,polyline}', ''), nullif(p_detail #>> '{map,summary_polyline}', '')) $$;

-- A deleted activity: a fetch that began before the deletion must not bring it back.
CREATE TABLE activity_tombstone (
  activity_id bigint      CONSTRAINT activity_tombstone_pkey PRIMARY KEY,
  athlete_id  bigint      NOT NULL,
  deleted_at  timestamptz NOT NULL DEFAULT sync_now()
);
CREATE INDEX activity_tombstone_of_athlete ON activity_tombstone (athlete_id);
CREATE INDEX activity_tombstone_oldest ON activity_tombstone (deleted_at);

CREATE TABLE thumbnail (
  activity_id bigint      CONSTRAINT thumbnail_pkey PRIMARY KEY
                          CONSTRAINT thumbnail_of_activity REFERENCES activity ON DELETE CASCADE,
  png         bytea       NOT NULL,
  etag        text        NOT NULL,
  size_px     integer     NOT NULL,
  rendered_at timestamptz NOT NULL DEFAULT sync_now()
);
-- PNG is compressed already.
ALTER TABLE thumbnail ALTER COLUMN png SET STORAGE EXTERNAL;

CREATE TABLE subscription (
  subscription_id bigint      CONSTRAINT subscription_pkey PRIMARY KEY,
  callback_url    text        NOT NULL,
  known_since     timestamptz NOT NULL DEFAULT sync_now()
);
COMMENT ON TABLE subscription IS 'Subscriptions created or listed through this service; others are not trusted.';

-- The ledger: one row for each distinct event of the provider.
CREATE TABLE webhook_event (
  id               bigint      GENERATED ALWAYS AS IDENTITY CONSTRAINT webhook_event_pkey PRIMARY KEY,
  object_type      text        NOT NULL,
  object_id        bigint      NOT NULL,
  aspect_type      event_aspect NOT NULL,
  owner_id         bigint      NOT NULL,
  subscription_id  bigint,
  event_time       timestamptz NOT NULL,
  updates          jsonb       NOT NULL DEFAULT '{}',
  result           event_result NOT NULL DEFAULT 'accepted',
  deliveries       integer     NOT NULL DEFAULT 1,
  received_at      timestamptz NOT NULL DEFAULT sync_now(),
  last_received_at timestamptz NOT NULL DEFAULT sync_now(),
  CONSTRAINT webhook_event_once UNIQUE (object_id, event_time, aspect_type, object_type)
);
-- The ledger is read newest first, whole, between two times, of one athlete, or only what was stale.
CREATE INDEX webhook_event_received ON webhook_event (received_at DESC, id DESC);
CREATE INDEX webhook_event_of_athlete ON webhook_event (owner_id, received_at DESC, id DESC);
CREATE INDEX webhook_event_stale ON webhook_event (received_at DESC, id DESC) WHERE result = 'stale';
CREATE INDEX webhook_event_repeated ON webhook_event (last_received_at) WHERE deliveries > 1;

-- What was asked for. One row for each activity, ever; the pg-boss job named by boss_job_id says how
-- the newest request stands.
CREATE TABLE activity_fetch_job (
  id           bigint      GENERATED ALWAYS AS IDENTITY CONSTRAINT activity_fetch_job_pkey PRIMARY KEY,
  activity_id  bigint      NOT NULL CONSTRAINT activity_fetch_job_activity_once UNIQUE
                           CONSTRAINT activity_fetch_job_activity_positive CHECK (activity_id > 0),
  athlete_id   bigint      NOT NULL CONSTRAINT activity_fetch_job_athlete_positive CHECK (athlete_id > 0),
  reason       text        NOT NULL
               CONSTRAINT activity_fetch_job_reason_known CHECK (reason IN ('webhook', 'manual', 'polling')),
  force        boolean     NOT NULL DEFAULT false,
  aspect       event_aspect NOT NULL DEFAULT 'create',
  event_time   timestamptz, -- of the newest webhook event heard; null when none was
  version      integer     NOT NULL DEFAULT 1, -- counts the requests; a run that began under an older one is followed by one more
  boss_job_id  uuid        NOT NULL DEFAULT time_ordered_uuid(),
  asked_during text,       -- the run (see run_name) during which the newest request came: one more follows it
  outcome      fetch_outcome, -- what came of the newest request; null while it is open
  created_at   timestamptz NOT NULL DEFAULT sync_now(),
  requested_at timestamptz NOT NULL DEFAULT sync_now()
);
-- Every filter of the list (status is a set of outcomes) is a handful of ranges in id order, however rare
-- its rows are.
CREATE INDEX activity_fetch_job_of_athlete ON activity_fetch_job (athlete_id, outcome, id DESC) INCLUDE (reason);
CREATE INDEX activity_fetch_job_by_outcome ON activity_fetch_job (outcome, reason, id DESC);

-- Runs that did not finish their job: failures, stale reclaims, answers 429. Success needs no row.
CREATE TABLE fetch_attempt (
  id         bigint      GENERATED ALWAYS AS IDENTITY CONSTRAINT fetch_attempt_pkey PRIMARY KEY,
  job_id     bigint      NOT NULL CONSTRAINT fetch_attempt_of_job REFERENCES activity_fetch_job ON DELETE CASCADE,
  started_at timestamptz NOT NULL,
  ended_at   timestamptz NOT NULL DEFAULT sync_now(),
  result     text        NOT NULL CONSTRAINT fetch_attempt_result_known CHECK (result IN ('retry', 'put_back', 'failed')),
  error      text        NOT NULL
);
CREATE INDEX fetch_attempt_of_job ON fetch_attempt (job_id, id);
