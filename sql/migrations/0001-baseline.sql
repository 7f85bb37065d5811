-- breaking: release 0.1 knows the nine migrations that this one replaces, and refuses it

-- Activities, their athletes and pictures, fetch requests, and the ledger of webhook deliveries. The state of a job is
-- pg-boss's (schema pgboss); nothing here repeats it.

-- What happened to an activity, what became of the event, and what came of a request. Types rather than checks:
-- every statement that writes reads a table's checks anew.
CREATE TYPE event_aspect AS ENUM ('create', 'update', 'delete');
CREATE TYPE event_result AS ENUM ('accepted', 'stale', 'refuted');
CREATE TYPE fetch_outcome AS ENUM
  ('stored', 'skipped', 'deleted', 'notFound', 'unauthorized', 'forbidden', 'unknownAthlete', 'exhausted', 'refuted', 'unusable');

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

-- Fetch requests. One row for each activity, ever; the state of the newest request is that of the pg-boss job
-- named by boss_job_id.
CREATE TABLE activity_fetch_job (
  id           bigint      GENERATED ALWAYS AS IDENTITY CONSTRAINT activity_fetch_job_pkey PRIMARY KEY,
  activity_id  bigint      NOT NULL CONSTRAINT activity_fetch_job_activity_once UNIQUE
                           CONSTRAINT activity_fetch_job_activity_positive CHECK (activity_id > 0),
  athlete_id   bigint      NOT NULL CONSTRAINT activity_fetch_job_athlete_positive CHECK (athlete_id > 0),
  reason       text        NOT NULL
               CONSTRAINT activity_fetch_job_reason_known CHECK (reason IN ('webhook', 'manual', 'polling')),
  force        boolean     NOT NULL DEFAULT false,
  aspect       event_aspect NOT NULL DEFAULT 'create',
  event_time   timestamptz, -- of the newest webhook event: the earlier of its time and its arrival; null without one
  version      integer     NOT NULL DEFAULT 1, -- counts the requests; a run claimed under an older one is followed by one more
  boss_job_id  uuid        NOT NULL DEFAULT gen_random_uuid(),
  outcome      fetch_outcome, -- what came of the newest request; null while it is open
  created_at   timestamptz NOT NULL DEFAULT sync_now(),
  requested_at timestamptz NOT NULL DEFAULT sync_now(),
  reclaims     smallint    NOT NULL DEFAULT 0, -- runs of the newest request whose worker died or went stale
  signed       boolean     NOT NULL DEFAULT false  -- the newest webhook event carried a valid signature
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

-- An athlete's row is the lock under which their jobs are requested, claimed, settled and erased, and holds their cooldown.
CREATE TABLE athlete_schedule (
  athlete_id     bigint      CONSTRAINT athlete_schedule_pkey PRIMARY KEY,
  cooldown_until timestamptz NOT NULL DEFAULT '-infinity',
  held_by        uuid        -- the pg-boss job whose run set cooldown_until at its claim, and may shorten it
);
-- Found when a clock that was ahead has been set back.
CREATE INDEX athlete_schedule_cooldown ON athlete_schedule (cooldown_until);

-- The jobs of one athlete and one reason wait in a lane of their own, a value of pg-boss's priority, so that a claim
-- goes straight to the head of one lane and steps over nothing. Deletions that need no call wait in a lane 'delete',
-- which knows neither budget nor cooldown. due_at is a hint for the claim, null when nothing waits; the jobs are the truth.
CREATE TABLE lane (
  lane       integer     GENERATED BY DEFAULT AS IDENTITY CONSTRAINT lane_pkey PRIMARY KEY,
  athlete_id bigint      NOT NULL CONSTRAINT lane_of_athlete REFERENCES athlete_schedule ON DELETE CASCADE,
  reason     text        NOT NULL CONSTRAINT lane_reason_known CHECK (reason IN ('delete', 'webhook', 'manual', 'polling')),
  due_at     timestamptz,
  CONSTRAINT lane_once UNIQUE (athlete_id, reason)
);
CREATE INDEX lane_due ON lane (reason, due_at) WHERE due_at IS NOT NULL;

-- The running processes of the service. Each holds an advisory lock on its number as its sign of life.
CREATE TABLE process (
  process_id   integer     GENERATED BY DEFAULT AS IDENTITY CONSTRAINT process_pkey PRIMARY KEY,
  host         text        NOT NULL,
  pid          integer     NOT NULL,
  roles        text[]      NOT NULL,
  version      text        NOT NULL,
  started_at   timestamptz NOT NULL DEFAULT now(),
  last_seen_at timestamptz NOT NULL DEFAULT now()
);

-- Which process runs which claimed job, written with the claim and deleted with its settlement.
CREATE TABLE job_claim (
  boss_job_id uuid        CONSTRAINT job_claim_pkey PRIMARY KEY,
  queue       text        NOT NULL,
  process_id  integer     NOT NULL,
  version     integer     -- of the fetch request that the run answers
);
CREATE INDEX job_claim_of_process ON job_claim (process_id);

-- The budget that every replica shares: one row, changed under one advisory lock.
CREATE TABLE rate_budget (
  one_row          boolean     DEFAULT true CONSTRAINT rate_budget_pkey PRIMARY KEY CONSTRAINT rate_budget_one_row CHECK (one_row),
  capacity         integer     NOT NULL DEFAULT 600,    -- configured calls per window
  interval_ms      integer     NOT NULL DEFAULT 900000, -- windows start at multiples of it since the epoch
  guard_ms         integer     NOT NULL DEFAULT 2000,   -- how far the provider's clock may be from ours
  lag_ms           integer     NOT NULL DEFAULT 1000,   -- how long after its grant a call may reach the provider
  window_start     timestamptz NOT NULL DEFAULT 'epoch',
  used             integer     NOT NULL DEFAULT 0, -- of this window, all reasons
  background_used  integer     NOT NULL DEFAULT 0, -- of this window, manual and polling
  previous_used    integer     NOT NULL DEFAULT 0, -- of the window before
  next_used        integer     NOT NULL DEFAULT 0, -- charged ahead, near the window's end
  reduced_capacity integer,                        -- after a 429; null when none is in force
  throttled        boolean     NOT NULL DEFAULT false, -- a 429 came in this window
  provider_limit   integer,                        -- the provider's own figure for a window
  blocked_until    timestamptz NOT NULL DEFAULT '-infinity',
  blocked_by       text,
  day              date        NOT NULL DEFAULT 'epoch',
  daily_used       integer     NOT NULL DEFAULT 0,
  daily_limit      integer                         -- the provider's own figure for a UTC day
);
INSERT INTO rate_budget DEFAULT VALUES;
ALTER TABLE rate_budget SET (fillfactor = 10);

-- Jobs by reason and outcome (null while open), kept as a sum of changes: every statement that changes
-- jobs adds what it changed, so nobody waits for a common row and the sum is exact in every snapshot.
-- compact_job_counts() folds the changes together from time to time.
CREATE TABLE job_count (
  reason  text          NOT NULL,
  outcome fetch_outcome,
  jobs    bigint        NOT NULL
);
COMMENT ON TABLE job_count IS 'How many jobs of each reason and outcome there are: the sum over the rows.';

-- Who did what through the admin interface. Written before the change is made, completed after it: an
-- entry without a status is a change that did not come to its end.
CREATE TABLE audit_entry (
  id         bigint      GENERATED ALWAYS AS IDENTITY CONSTRAINT audit_entry_pkey PRIMARY KEY,
  at         timestamptz NOT NULL DEFAULT sync_now(),
  who        text        NOT NULL CONSTRAINT audit_entry_who_known CHECK (who IN ('admin', 'read', 'session')),
  action     text        NOT NULL, -- method and route
  target     text,                 -- the id that the path named
  detail     jsonb       NOT NULL DEFAULT '{}',
  status     integer,              -- of the answer
  athlete_id bigint                -- whom it concerned: erased with them
);
CREATE INDEX audit_entry_oldest ON audit_entry (at);
CREATE INDEX audit_entry_of_athlete ON audit_entry (athlete_id) WHERE athlete_id IS NOT NULL;
COMMENT ON TABLE audit_entry IS 'Changes made through the admin interface.';

-- What one process does for all of them. Whoever holds a duty renews it; when it dies another takes over.
CREATE TABLE duty (
  name       text        CONSTRAINT duty_pkey PRIMARY KEY,
  holder     uuid        NOT NULL,
  held_until timestamptz NOT NULL
);
COMMENT ON TABLE duty IS 'Housekeeping that one process does for all, and who has it.';

-- What happened in each minute, all processes together: counts by measure, and for a histogram's measure
-- by the upper bound of the bucket (0 for what is only counted).
CREATE TABLE history (
  minute  timestamptz      NOT NULL,
  measure text             NOT NULL,
  bucket  double precision NOT NULL,
  n       bigint           NOT NULL,
  CONSTRAINT history_pkey PRIMARY KEY (minute, measure, bucket)
);
COMMENT ON TABLE history IS 'Runs, waits and drift by the minute, for charts.';

-- Reading athletes' lists: one walk for the polling sweeps and one for each manual sync. A walk advances one
-- page at a time: a process claims it for a few seconds (claim_token, lease_until), asks the provider, and
-- writes what it found together with how far it came in one transaction, which holds only while the claim
-- does. A process that dies loses at most one page's answer.
--
-- Locks are taken in this order: the athlete's row of the schedule, the athlete (FOR KEY SHARE), the walk,
-- requests, pg-boss's jobs, items, the visit. A page that could not be read locks the visit before the walk and
-- nothing else, as an erasure does, which holds the athlete.

CREATE TABLE list_walk (
  id               bigint      GENERATED BY DEFAULT AS IDENTITY CONSTRAINT list_walk_pkey PRIMARY KEY,
  kind             text        NOT NULL CONSTRAINT list_walk_kind_known CHECK (kind IN ('polling', 'manual')),
  athlete_id       bigint      CONSTRAINT list_walk_of_athlete REFERENCES athlete ON DELETE CASCADE, -- null: all
  after_s          bigint,     -- epoch seconds, exclusive
  before_s         bigint,     -- epoch seconds, exclusive; null: the time at which an athlete's visit begins
  force            boolean     NOT NULL DEFAULT false,
  state            text        NOT NULL DEFAULT 'running'
                   CONSTRAINT list_walk_state_known CHECK (state IN ('running', 'finished', 'cancelled', 'failed')),
  error            text, -- the last one
  athletes         integer     NOT NULL DEFAULT 0,
  athletes_listed  integer     NOT NULL DEFAULT 0,
  athletes_failed  integer     NOT NULL DEFAULT 0,
  pages            integer     NOT NULL DEFAULT 0,
  listed           integer     NOT NULL DEFAULT 0,
  queued           integer     NOT NULL DEFAULT 0,
  fetched          integer     NOT NULL DEFAULT 0, -- as last counted
  fetches_failed   integer     NOT NULL DEFAULT 0, -- as last counted
  open_items       integer     NOT NULL DEFAULT 0, -- as last counted
  busiest_athlete  integer     NOT NULL DEFAULT 0, -- open items of the athlete who has most, as last counted
  not_before       timestamptz NOT NULL DEFAULT '-infinity', -- no page is read before then: the budget is closed
  check_due_at     timestamptz, -- manual: when to count what was fetched, or to remove what was cancelled; null: ended
  stepped_at       timestamptz NOT NULL DEFAULT sync_now(),
  claim_token      uuid,
  lease_until      timestamptz NOT NULL DEFAULT '-infinity',
  started_at       timestamptz NOT NULL DEFAULT sync_now(),
  finished_at      timestamptz
);
CREATE UNIQUE INDEX list_walk_polling ON list_walk (kind) WHERE kind = 'polling';
CREATE INDEX list_walk_open ON list_walk (stepped_at) WHERE kind = 'polling' OR check_due_at IS NOT NULL;
CREATE INDEX list_walk_of_athlete ON list_walk (athlete_id);
COMMENT ON TABLE list_walk IS 'Walks through athletes'' lists: one row for the polling sweeps, one for each manual sync.';

CREATE TABLE list_visit (
  walk_id        bigint      NOT NULL CONSTRAINT list_visit_of_walk REFERENCES list_walk ON DELETE CASCADE,
  athlete_id     bigint      NOT NULL CONSTRAINT list_visit_of_athlete REFERENCES athlete ON DELETE CASCADE,
  not_before     timestamptz NOT NULL DEFAULT '-infinity',
  before_s       bigint, -- upper bound of the next page, epoch seconds; null: not begun
  page           integer     NOT NULL DEFAULT 1, -- counts on only while one second fills a page
  boundary       bigint[]    NOT NULL DEFAULT '{}', -- seen already although the next page lists them again
  known_in_a_row integer     NOT NULL DEFAULT 0,
  failures       integer     NOT NULL DEFAULT 0,
  CONSTRAINT list_visit_pkey PRIMARY KEY (walk_id, athlete_id)
);
CREATE INDEX list_visit_next ON list_visit (walk_id, not_before, athlete_id);
CREATE INDEX list_visit_athlete ON list_visit (athlete_id);
COMMENT ON TABLE list_visit IS 'Athletes whom a walk has still to visit, and how far it came with each.';

-- Differences that a sweep found and requested to be fetched again. One that outlives the fetch is the provider's own
-- (list and detail disagree), and must not cost a call in every sweep.
CREATE TABLE polling_difference (
  activity_id bigint      CONSTRAINT polling_difference_pkey PRIMARY KEY
                          CONSTRAINT polling_difference_of_activity REFERENCES activity ON DELETE CASCADE,
  summary     text        NOT NULL, -- as listed; 'not listed' for one that the list lacked
  asked_at    timestamptz NOT NULL
);
COMMENT ON TABLE polling_difference IS 'Differences between list and store that a sweep asked to be fetched again.';

-- The fetches that a running sync requested: each activity once, also by force. A job that only syncs
-- requested is removed with the last of them that is cancelled.
CREATE TABLE sync_item (
  sync_id     bigint  NOT NULL CONSTRAINT sync_item_of_sync REFERENCES list_walk ON DELETE CASCADE,
  activity_id bigint  NOT NULL CONSTRAINT sync_item_of_job REFERENCES activity_fetch_job (activity_id) ON DELETE CASCADE,
  athlete_id  bigint  NOT NULL,
  settled     boolean NOT NULL DEFAULT false,
  joined      boolean NOT NULL, -- another client wants it too: a cancelled sync leaves that job alone
  version     integer NOT NULL, -- of the request when a sync last asked; the request's has grown when another client asked since
  CONSTRAINT sync_item_pkey PRIMARY KEY (sync_id, activity_id)
);
CREATE INDEX sync_item_of_activity ON sync_item (activity_id);
CREATE INDEX sync_item_unsettled ON sync_item (sync_id, athlete_id) WHERE NOT settled;
COMMENT ON TABLE sync_item IS 'Fetches that running manual syncs requested.';

INSERT INTO list_walk (id, kind, state, finished_at) VALUES (0, 'polling', 'finished', '-infinity');
