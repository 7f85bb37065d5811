-- compatible: the release before changes jobs within its request, and knows no bulk change

CREATE TABLE bulk_change (
  id           bigint      GENERATED ALWAYS AS IDENTITY CONSTRAINT bulk_change_pkey PRIMARY KEY,
  action       text        NOT NULL CONSTRAINT bulk_change_action_known CHECK (action IN ('retry', 'force', 'delete', 'replay')),
  filter       jsonb       NOT NULL, -- as requested
  athlete_id   bigint,               -- whose jobs; null: of several
  requested_by text        NOT NULL,
  total        integer     NOT NULL, -- jobs, or activities of deliveries, that matched at the start
  changed      integer     NOT NULL DEFAULT 0,
  state        text        NOT NULL DEFAULT 'running'
               CONSTRAINT bulk_change_state_known CHECK (state IN ('running', 'finished', 'cancelled', 'interrupted', 'failed')),
  cancels      boolean     NOT NULL DEFAULT false, -- ends behind the current batch
  error        text,
  started_at   timestamptz NOT NULL DEFAULT sync_now(),
  stepped_at   timestamptz NOT NULL DEFAULT sync_now(),
  finished_at  timestamptz
);
CREATE INDEX bulk_change_of_athlete ON bulk_change (athlete_id) WHERE athlete_id IS NOT NULL;
COMMENT ON TABLE bulk_change IS 'Changes of many jobs, and replays of many deliveries, that run in the background; the newest hundred.';
