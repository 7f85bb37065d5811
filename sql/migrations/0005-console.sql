-- compatible: the release before knows no pause, and goes on fetching during one

-- Fetching that an operator has paused.
CREATE TABLE fetch_pause (
  reason    text        CONSTRAINT fetch_pause_pkey PRIMARY KEY
                        CONSTRAINT fetch_pause_reason_known CHECK (reason IN ('all', 'webhook', 'manual', 'polling')),
  paused_by text        NOT NULL,
  paused_at timestamptz NOT NULL DEFAULT sync_now(),
  note      text        NOT NULL
);
COMMENT ON TABLE fetch_pause IS 'Reasons for which nothing is fetched until an operator resumes: who paused them, when and why.';
