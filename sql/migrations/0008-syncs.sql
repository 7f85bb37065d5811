-- Reading athletes' lists: polling sweeps and manual syncs. Both advance one page at a time: a process
-- claims a page for a few seconds (holder, lease_until), asks the provider, and writes what it found
-- together with how far it came in one transaction, which holds only while the claim does. A process
-- that dies loses at most one page's answer.
--
-- Locks are taken in this order: the athlete's row of the schedule, the athlete (FOR KEY SHARE), the
-- sweep or sync, requests, pg-boss's jobs, items, the visit or walk.

-- The polling sweep under way, and when the last one finished: one row for all replicas.
CREATE TABLE polling_sweep (
  one_row     boolean     DEFAULT true CONSTRAINT polling_sweep_pkey PRIMARY KEY CONSTRAINT polling_sweep_one_row CHECK (one_row),
  started_at  timestamptz, -- null while none is under way
  finished_at timestamptz NOT NULL DEFAULT '-infinity',
  not_before  timestamptz NOT NULL DEFAULT '-infinity', -- the budget opens then
  holder      uuid,
  lease_until timestamptz NOT NULL DEFAULT '-infinity',
  athletes    integer     NOT NULL DEFAULT 0, -- to visit in this sweep
  failed      integer     NOT NULL DEFAULT 0, -- given up in this sweep
  queued      integer     NOT NULL DEFAULT 0  -- fetches asked for in this sweep
);
INSERT INTO polling_sweep DEFAULT VALUES;
COMMENT ON TABLE polling_sweep IS 'One row: the polling sweep under way, and when the last one finished.';

-- The athletes whom the sweep under way has still to visit, and how far it came with each.
CREATE TABLE polling_visit (
  athlete_id     bigint      CONSTRAINT polling_visit_pkey PRIMARY KEY
                             CONSTRAINT polling_visit_of_athlete REFERENCES athlete ON DELETE CASCADE,
  not_before     timestamptz NOT NULL DEFAULT '-infinity',
  before_s       bigint, -- upper bound of the next page, epoch seconds; null: not begun
  page           integer     NOT NULL DEFAULT 1, -- counts on only while one second fills a page
  boundary       bigint[]    NOT NULL DEFAULT '{}', -- seen already although the next page lists them again
  known_in_a_row integer     NOT NULL DEFAULT 0,
  failures       integer     NOT NULL DEFAULT 0
);
CREATE INDEX polling_visit_next ON polling_visit (not_before, athlete_id);
COMMENT ON TABLE polling_visit IS 'Athletes whom the polling sweep under way has still to visit.';

-- What a sweep found different and asked to be fetched again. A difference that outlives the fetch is
-- the provider's own (list and detail disagree), and must not cost a call in every sweep.
CREATE TABLE polling_difference (
  activity_id bigint      CONSTRAINT polling_difference_pkey PRIMARY KEY
                          CONSTRAINT polling_difference_of_activity REFERENCES activity ON DELETE CASCADE,
  summary     text        NOT NULL, -- as listed; 'not listed' for one that the list lacked
  asked_at    timestamptz NOT NULL
);
COMMENT ON TABLE polling_difference IS 'Differences between list and store that a sweep asked to be fetched again.';

-- Bulk syncs that somebody asked for, of one athlete or of all.
CREATE TABLE manual_sync (
  id               bigint      GENERATED ALWAYS AS IDENTITY CONSTRAINT manual_sync_pkey PRIMARY KEY,
  athlete_id       bigint      CONSTRAINT manual_sync_of_athlete REFERENCES athlete ON DELETE CASCADE, -- null: all
  after_s          bigint,      -- epoch seconds, exclusive
  before_s         bigint      NOT NULL, -- epoch seconds, exclusive; fixed when the sync is made
  force            boolean     NOT NULL,
  state            text        NOT NULL DEFAULT 'running'
                   CONSTRAINT manual_sync_state_known CHECK (state IN ('running', 'finished', 'cancelled', 'failed')),
  error            text, -- the last one
  athletes         integer     NOT NULL,
  athletes_listed  integer     NOT NULL DEFAULT 0,
  athletes_failed  integer     NOT NULL DEFAULT 0,
  pages            integer     NOT NULL DEFAULT 0,
  listed           integer     NOT NULL DEFAULT 0,
  queued           integer     NOT NULL DEFAULT 0,
  fetched          integer     NOT NULL DEFAULT 0, -- as last counted
  fetches_failed   integer     NOT NULL DEFAULT 0, -- as last counted
  open_items       integer     NOT NULL DEFAULT 0, -- as last counted
  busiest_athlete  integer     NOT NULL DEFAULT 0, -- open items of the athlete who has most, as last counted
  list_due_at      timestamptz DEFAULT '-infinity', -- when the next page may be read; null: the lists are read
  count_due_at     timestamptz DEFAULT '-infinity', -- when to count what was fetched; null: nothing is left to do
  stepped_at       timestamptz NOT NULL DEFAULT sync_now(),
  holder           uuid,
  lease_until      timestamptz NOT NULL DEFAULT '-infinity',
  created_at       timestamptz NOT NULL DEFAULT sync_now(),
  finished_at      timestamptz
);
CREATE INDEX manual_sync_open ON manual_sync (stepped_at) WHERE count_due_at IS NOT NULL;
CREATE INDEX manual_sync_of_athlete ON manual_sync (athlete_id);
COMMENT ON TABLE manual_sync IS 'Bulk syncs asked for by hand, with their progress.';

-- The athletes whose lists a sync has still to read, and how far it came with each.
CREATE TABLE manual_sync_walk (
  sync_id    bigint      NOT NULL CONSTRAINT manual_sync_walk_of_sync REFERENCES manual_sync ON DELETE CASCADE,
  athlete_id bigint      NOT NULL CONSTRAINT manual_sync_walk_of_athlete REFERENCES athlete ON DELETE CASCADE,
  not_before timestamptz NOT NULL DEFAULT '-infinity',
  before_s   bigint      NOT NULL,
  page       integer     NOT NULL DEFAULT 1,
  boundary   bigint[]    NOT NULL DEFAULT '{}',
  failures   integer     NOT NULL DEFAULT 0,
  CONSTRAINT manual_sync_walk_pkey PRIMARY KEY (sync_id, athlete_id)
);
CREATE INDEX manual_sync_walk_next ON manual_sync_walk (sync_id, not_before, athlete_id);
CREATE INDEX manual_sync_walk_athlete ON manual_sync_walk (athlete_id);

-- The fetches that a running sync asked for: each activity once, also by force. A job that only syncs asked
-- for is removed with the last of them that is cancelled.
CREATE TABLE manual_sync_item (
  sync_id     bigint  NOT NULL CONSTRAINT manual_sync_item_of_sync REFERENCES manual_sync ON DELETE CASCADE,
  activity_id bigint  NOT NULL CONSTRAINT manual_sync_item_of_job REFERENCES activity_fetch_job (activity_id) ON DELETE CASCADE,
  athlete_id  bigint  NOT NULL,
  settled     boolean NOT NULL DEFAULT false,
  joined      boolean NOT NULL, -- somebody who is no sync wants it too: a cancelled sync leaves that job alone
  version     integer NOT NULL, -- of the request when a sync last asked; the request's has grown when somebody else asked since
  CONSTRAINT manual_sync_item_pkey PRIMARY KEY (sync_id, activity_id)
);
CREATE INDEX manual_sync_item_of_activity ON manual_sync_item (activity_id);
CREATE INDEX manual_sync_item_unsettled ON manual_sync_item (sync_id, athlete_id) WHERE NOT settled;
