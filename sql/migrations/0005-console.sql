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

-- What the console reads of endpoints: attempts of a day and those that failed, deliveries that wait, and where the
-- changes of an activity were sent.
CREATE INDEX delivery_attempt_recent ON delivery_attempt (endpoint_id, at);
CREATE INDEX delivery_attempt_failed ON delivery_attempt (endpoint_id, id DESC) WHERE result <> 'delivered';
CREATE INDEX delivery_waiting ON delivery (endpoint_id, created_at) WHERE state = 'waiting';
CREATE INDEX delivery_of_activity ON delivery (activity_id, id);
CREATE INDEX change_of_activity ON change (activity_id, position);

-- A revoked token stays in the list.
ALTER TABLE api_token ADD COLUMN revoked_at timestamptz;
