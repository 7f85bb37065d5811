-- compatible: the release before records runs that failed only, and no request

-- Every run of a job, also those that succeeded.
ALTER TABLE fetch_attempt DROP CONSTRAINT fetch_attempt_result_known;
ALTER TABLE fetch_attempt ADD CONSTRAINT fetch_attempt_result_known CHECK (result IN ('done', 'retry', 'put_back', 'failed'));
ALTER TABLE fetch_attempt ALTER COLUMN error DROP NOT NULL;
ALTER TABLE fetch_attempt ADD COLUMN outcome fetch_outcome;

CREATE TABLE fetch_request (
  id           bigint      GENERATED ALWAYS AS IDENTITY CONSTRAINT fetch_request_pkey PRIMARY KEY,
  job_id       bigint      NOT NULL CONSTRAINT fetch_request_of_job REFERENCES activity_fetch_job ON DELETE CASCADE,
  at           timestamptz NOT NULL DEFAULT sync_now(),
  kind         text        NOT NULL
               CONSTRAINT fetch_request_kind_known CHECK (kind IN ('request', 'retry', 'replay', 'sync', 'polling', 'connect')),
  requested_by text,  -- admin or session; null for the service itself
  source       bigint -- of a replay the ledger entry, of a sync its id
);
CREATE INDEX fetch_request_by_job ON fetch_request (job_id, id);
COMMENT ON TABLE fetch_request IS 'Requests for fetches that did not come from the provider, whose events are in the ledger.';
