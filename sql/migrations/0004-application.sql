-- compatible: the release before records no changes, and serves without them

-- What the application that uses the copy needs: the feed of changes, its tokens, its endpoints and what is sent to
-- them, and views for an application on the same database.

-- The application's own id of the user who is this athlete.
ALTER TABLE athlete ADD COLUMN external_id text;
CREATE INDEX athlete_by_external_id ON athlete (external_id) WHERE external_id IS NOT NULL;

-- What was stored since a time.
CREATE INDEX activity_fetched ON activity (fetched_at);

-- The feed's newest position, and the one up to which changes are gone. Its row is the lock under which changes are
-- numbered; the last that a transaction takes.
CREATE TABLE change_feed (
  only_row   boolean CONSTRAINT change_feed_pkey PRIMARY KEY DEFAULT true CONSTRAINT change_feed_is_one CHECK (only_row),
  position   bigint  NOT NULL DEFAULT 0,
  kept_after bigint  NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
INSERT INTO change_feed DEFAULT VALUES;

CREATE TABLE change (
  seq         bigint      GENERATED ALWAYS AS IDENTITY, -- the order within a transaction
  id          uuid        CONSTRAINT change_pkey PRIMARY KEY DEFAULT gen_random_uuid(),
  position    bigint      CONSTRAINT change_position_once UNIQUE, -- null until the transaction commits
  type        text        NOT NULL,
  at          timestamptz NOT NULL DEFAULT sync_now(),
  athlete_id  bigint,
  external_id text,
  activity_id bigint,
  endpoint_id bigint
);
CREATE INDEX change_of_athlete ON change (athlete_id, position);
COMMENT ON TABLE change IS 'What the application must know, in commit order: one row for each effect.';

CREATE TABLE api_token (
  id           bigint      GENERATED ALWAYS AS IDENTITY CONSTRAINT api_token_pkey PRIMARY KEY,
  name         text        NOT NULL,
  scope        text        NOT NULL CONSTRAINT api_token_scope_known CHECK (scope IN ('read', 'write')),
  digest       bytea       NOT NULL CONSTRAINT api_token_digest_once UNIQUE, -- SHA-256 of the token
  created_at   timestamptz NOT NULL DEFAULT sync_now(),
  last_used_at timestamptz
);
COMMENT ON TABLE api_token IS 'Tokens of applications; the token itself is not kept.';

CREATE TABLE endpoint (
  id              bigint      GENERATED ALWAYS AS IDENTITY CONSTRAINT endpoint_pkey PRIMARY KEY,
  url             text        NOT NULL,
  types           text[],     -- null: all
  athlete_ids     bigint[],   -- null: all
  description     text        NOT NULL DEFAULT '',
  secret          text        NOT NULL, -- encrypted
  former_secret   text,                 -- encrypted; signs too until former_until
  former_until    timestamptz,
  position        bigint      NOT NULL, -- changes up to this one have become deliveries
  succeeded_at    timestamptz,
  failing_since   timestamptz,          -- the first failure since the last success
  disabled_at     timestamptz,
  disabled_reason text        CONSTRAINT endpoint_disabled_reason_known CHECK (disabled_reason IN ('gone', 'failing', 'request')),
  created_at      timestamptz NOT NULL DEFAULT sync_now()
);
COMMENT ON TABLE endpoint IS 'Addresses of the application that changes are sent to.';

-- What is sent to an endpoint. Deliveries of one endpoint and one athlete are a line: only its head has a job.
CREATE TABLE delivery (
  id          bigint      GENERATED ALWAYS AS IDENTITY CONSTRAINT delivery_pkey PRIMARY KEY,
  endpoint_id bigint      NOT NULL CONSTRAINT delivery_to_endpoint REFERENCES endpoint ON DELETE CASCADE,
  change_id   uuid        NOT NULL, -- the webhook-id
  position    bigint,
  type        text        NOT NULL,
  at          timestamptz NOT NULL,
  athlete_id  bigint,
  external_id text,
  activity_id bigint,
  line        bigint      NOT NULL GENERATED ALWAYS AS (coalesce(athlete_id, 0)) STORED,
  state       text        NOT NULL DEFAULT 'waiting' CONSTRAINT delivery_state_known CHECK (state IN ('waiting', 'delivered', 'exhausted')),
  attempts    integer     NOT NULL DEFAULT 0,
  job_id      uuid,
  created_at  timestamptz NOT NULL DEFAULT sync_now(),
  settled_at  timestamptz
);
CREATE INDEX delivery_line ON delivery (endpoint_id, line, id) WHERE state = 'waiting';
CREATE INDEX delivery_of_change ON delivery (endpoint_id, change_id) WHERE state = 'waiting'; -- a replay passes over what waits
CREATE INDEX delivery_of_athlete ON delivery (athlete_id);
CREATE INDEX delivery_settled ON delivery (settled_at) WHERE state <> 'waiting';

CREATE TABLE delivery_attempt (
  id          bigint      GENERATED ALWAYS AS IDENTITY CONSTRAINT delivery_attempt_pkey PRIMARY KEY,
  delivery_id bigint      NOT NULL CONSTRAINT delivery_attempt_of_delivery REFERENCES delivery ON DELETE CASCADE,
  endpoint_id bigint      NOT NULL,
  at          timestamptz NOT NULL DEFAULT sync_now(),
  duration_ms integer     NOT NULL,
  status      integer,
  error       text,
  answer      text,       -- its first kilobyte
  result      text        NOT NULL CONSTRAINT delivery_attempt_result_known CHECK (result IN ('delivered', 'retry', 'exhausted'))
);
CREATE INDEX delivery_attempt_of_endpoint ON delivery_attempt (endpoint_id, id DESC);
CREATE INDEX delivery_attempt_of_delivery ON delivery_attempt (delivery_id);

-- For applications on the same database. The views are stable: columns are added, none is renamed or removed.
CREATE SCHEMA activity_sync;
CREATE VIEW activity_sync.activities AS
  SELECT a.activity_id AS id, a.athlete_id, u.external_id, a.name, a.sport_type, a.start_date, a.timezone, a.distance_m, a.moving_time_s,
    a.elapsed_time_s, a.elevation_gain_m, a.private, a.fetched_at AS updated_at, a.detail, t.png AS thumbnail
  FROM public.activity a LEFT JOIN public.athlete u USING (athlete_id) LEFT JOIN public.thumbnail t USING (activity_id)
  WHERE u.hidden_since IS NULL;
CREATE VIEW activity_sync.athletes AS
  SELECT athlete_id AS id, external_id, CASE WHEN hidden_since IS NULL THEN name END AS name, state, scope, connected_at, updated_at
  FROM public.athlete;
CREATE VIEW activity_sync.changes AS
  SELECT position AS cursor, id, type, at, athlete_id, external_id, activity_id, endpoint_id FROM public.change WHERE position IS NOT NULL;
COMMENT ON SCHEMA activity_sync IS 'The application''s view of the copy; LISTEN activity_sync_changes says when to look.';

-- A role that may read them and nothing else, where the service may create roles; docs/integrate.md has the statements.
DO $do$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'activity_sync_reader') THEN
    CREATE ROLE activity_sync_reader NOLOGIN;
  END IF;
  GRANT USAGE ON SCHEMA activity_sync TO activity_sync_reader;
  GRANT SELECT ON ALL TABLES IN SCHEMA activity_sync TO activity_sync_reader;
EXCEPTION
  WHEN insufficient_privilege THEN
    RAISE NOTICE 'the role activity_sync_reader was not created: the service may not create roles';
END
$do$;
