-- What the admin interface needs beyond the queue itself: counts and lists that stay cheap at a million
-- jobs, the audit, and who keeps house.

-- Jobs by reason and outcome (null while open), kept as a sum of changes: every statement that changes
-- jobs adds what it changed, so nobody waits for a common row and the sum is exact in every snapshot.
-- compact_job_counts() folds the changes together from time to time.
CREATE TABLE job_count (
  reason  text          NOT NULL,
  outcome fetch_outcome,
  jobs    bigint        NOT NULL
);
COMMENT ON TABLE job_count IS 'How many jobs of each reason and outcome there are: the sum over the rows.';
INSERT INTO job_count SELECT reason, outcome, count(*) FROM activity_fetch_job GROUP BY reason, outcome;

CREATE FUNCTION count_added_jobs() RETURNS trigger LANGUAGE plpgsql
AS $$
BEGIN
  INSERT INTO job_count SELECT reason, outcome, count(*) FROM added GROUP BY reason, outcome;
  RETURN NULL;
END
$$;

CREATE FUNCTION count_changed_jobs() RETURNS trigger LANGUAGE plpgsql
AS $$
BEGIN
  INSERT INTO job_count
  SELECT reason, outcome, sum(jobs)
  FROM (SELECT reason, outcome, 1 AS jobs FROM added UNION ALL SELECT reason, outcome, -1 FROM removed) change
  GROUP BY reason, outcome
  HAVING sum(jobs) <> 0;
  RETURN NULL;
END
$$;

CREATE FUNCTION count_removed_jobs() RETURNS trigger LANGUAGE plpgsql
AS $$
BEGIN
  INSERT INTO job_count SELECT reason, outcome, -count(*) FROM removed GROUP BY reason, outcome;
  RETURN NULL;
END
$$;

-- Not DELETE: it would not see the sums of a compaction that ends meanwhile.
CREATE FUNCTION forget_job_counts() RETURNS trigger LANGUAGE plpgsql
AS $$
BEGIN
  TRUNCATE job_count;
  RETURN NULL;
END
$$;

CREATE TRIGGER count_added AFTER INSERT ON activity_fetch_job REFERENCING NEW TABLE AS added
  FOR EACH STATEMENT EXECUTE FUNCTION count_added_jobs();
CREATE TRIGGER count_changed AFTER UPDATE ON activity_fetch_job REFERENCING OLD TABLE AS removed NEW TABLE AS added
  FOR EACH STATEMENT EXECUTE FUNCTION count_changed_jobs();
CREATE TRIGGER count_removed AFTER DELETE ON activity_fetch_job REFERENCING OLD TABLE AS removed
  FOR EACH STATEMENT EXECUTE FUNCTION count_removed_jobs();
CREATE TRIGGER count_truncated AFTER TRUNCATE ON activity_fetch_job
  FOR EACH STATEMENT EXECUTE FUNCTION forget_job_counts();

-- Two at once are no harm: each row is folded by one of them.
CREATE FUNCTION compact_job_counts() RETURNS void LANGUAGE sql VOLATILE
AS $$
  WITH folded AS (DELETE FROM job_count RETURNING reason, outcome, jobs)
  INSERT INTO job_count SELECT reason, outcome, sum(jobs) FROM folded GROUP BY reason, outcome HAVING sum(jobs) <> 0
$$;

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
