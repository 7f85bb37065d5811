-- One clock for every decision in SQL: pg-boss's, which a test can set.
CREATE OR REPLACE FUNCTION sync_now() RETURNS timestamptz LANGUAGE sql STABLE
AS $$ SELECT pgboss.job_now() $$;

-- The same clock, read again after a wait for a lock: sync_now() is constant within a transaction.
CREATE OR REPLACE FUNCTION sync_clock() RETURNS timestamptz LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
  IF current_setting('pgboss.test_clock', true) = 'on' THEN
    RETURN pgboss.job_now();
  END IF;
  RETURN clock_timestamp();
END
$$;
