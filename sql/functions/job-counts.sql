-- Keeps job_count: every statement that changes requests adds what it changed.

CREATE OR REPLACE FUNCTION count_added_jobs() RETURNS trigger LANGUAGE plpgsql
AS $$
BEGIN
  INSERT INTO job_count SELECT reason, outcome, count(*) FROM added GROUP BY reason, outcome;
  RETURN NULL;
END
$$;

CREATE OR REPLACE FUNCTION count_changed_jobs() RETURNS trigger LANGUAGE plpgsql
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

CREATE OR REPLACE FUNCTION count_removed_jobs() RETURNS trigger LANGUAGE plpgsql
AS $$
BEGIN
  INSERT INTO job_count SELECT reason, outcome, -count(*) FROM removed GROUP BY reason, outcome;
  RETURN NULL;
END
$$;

-- Not DELETE: it would not see the sums of a compaction that ends while it runs.
CREATE OR REPLACE FUNCTION forget_job_counts() RETURNS trigger LANGUAGE plpgsql
AS $$
BEGIN
  TRUNCATE job_count;
  RETURN NULL;
END
$$;

CREATE OR REPLACE TRIGGER count_added AFTER INSERT ON activity_fetch_job REFERENCING NEW TABLE AS added
  FOR EACH STATEMENT EXECUTE FUNCTION count_added_jobs();
CREATE OR REPLACE TRIGGER count_changed AFTER UPDATE ON activity_fetch_job REFERENCING OLD TABLE AS removed NEW TABLE AS added
  FOR EACH STATEMENT EXECUTE FUNCTION count_changed_jobs();
CREATE OR REPLACE TRIGGER count_removed AFTER DELETE ON activity_fetch_job REFERENCING OLD TABLE AS removed
  FOR EACH STATEMENT EXECUTE FUNCTION count_removed_jobs();
CREATE OR REPLACE TRIGGER count_truncated AFTER TRUNCATE ON activity_fetch_job
  FOR EACH STATEMENT EXECUTE FUNCTION forget_job_counts();

-- Two at once do no harm: each row is folded by one of them.
CREATE OR REPLACE FUNCTION compact_job_counts() RETURNS void LANGUAGE sql VOLATILE
AS $$
  WITH folded AS (DELETE FROM job_count RETURNING reason, outcome, jobs)
  INSERT INTO job_count SELECT reason, outcome, sum(jobs) FROM folded GROUP BY reason, outcome HAVING sum(jobs) <> 0
$$;
