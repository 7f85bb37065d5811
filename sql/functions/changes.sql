-- The feed of changes: recorded in the transaction that makes them true, numbered when it commits.

-- Numbers a change when its transaction commits. A transaction that commits later is numbered later: a reader who has
-- seen a position has seen every smaller one.
CREATE OR REPLACE FUNCTION number_change() RETURNS trigger LANGUAGE plpgsql
AS $$
DECLARE
  v_last bigint;
BEGIN
  -- Fires for each change; the first call numbers all changes of the transaction, the only unnumbered ones visible.
  -- A change that the same transaction erased again does not count.
  PERFORM FROM change WHERE id = NEW.id AND position IS NULL;
  IF FOUND THEN
    UPDATE change_feed SET position = position + (SELECT count(*) FROM change WHERE position IS NULL) RETURNING position INTO v_last;
    UPDATE change c SET position = v_last - u.behind
    FROM (SELECT id, row_number() OVER (ORDER BY seq DESC) - 1 AS behind FROM change WHERE position IS NULL) u
    WHERE c.id = u.id;
    PERFORM pg_notify('activity_sync_changes', ''), pg_notify('activity_sync', 'change');
  END IF;
  RETURN NULL;
END
$$;
-- It runs in every commit: a plan made while the feed was small must not scan it once it is large.
ALTER FUNCTION number_change SET enable_seqscan = off;
ALTER FUNCTION number_change SET jit = off;
ALTER FUNCTION number_change SET plan_cache_mode = force_generic_plan;
DROP TRIGGER IF EXISTS change_is_numbered ON change;
CREATE CONSTRAINT TRIGGER change_is_numbered AFTER INSERT ON change
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION number_change();

-- Records changes in the caller's transaction; the n-th element of every array is of the n-th change.
CREATE OR REPLACE FUNCTION record_changes(p_types text[], p_athletes bigint[], p_activities bigint[], p_endpoints bigint[] DEFAULT NULL)
RETURNS void LANGUAGE sql VOLATILE
AS $$
  INSERT INTO change (type, athlete_id, external_id, activity_id, endpoint_id)
  SELECT c.type, c.athlete_id, (SELECT a.external_id FROM athlete a WHERE a.athlete_id = c.athlete_id), c.activity_id, c.endpoint_id
  FROM unnest(p_types, p_athletes, p_activities, p_endpoints) WITH ORDINALITY AS c (type, athlete_id, activity_id, endpoint_id, n)
  ORDER BY c.n
$$;

-- Storing, replacing or removing an activity is a change; a re-fetch without a difference is none. An
-- erasure removes these changes again, and leaves its own.
CREATE OR REPLACE FUNCTION record_activity_changes() RETURNS trigger LANGUAGE plpgsql
AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    PERFORM record_changes(array_agg('activity.created'::text), array_agg(athlete_id), array_agg(activity_id)) FROM fresh HAVING count(*) > 0;
  ELSIF TG_OP = 'DELETE' THEN
    PERFORM record_changes(array_agg('activity.deleted'::text), array_agg(athlete_id), array_agg(activity_id)) FROM gone HAVING count(*) > 0;
  ELSE
    PERFORM record_changes(array_agg('activity.updated'::text), array_agg(f.athlete_id), array_agg(f.activity_id))
    FROM fresh f JOIN gone g USING (activity_id) WHERE f.detail::text <> g.detail::text OR f.athlete_id <> g.athlete_id HAVING count(*) > 0;
  END IF;
  RETURN NULL;
END
$$;
CREATE OR REPLACE TRIGGER activity_insert_is_recorded AFTER INSERT ON activity REFERENCING NEW TABLE AS fresh
  FOR EACH STATEMENT EXECUTE FUNCTION record_activity_changes();
CREATE OR REPLACE TRIGGER activity_update_is_recorded AFTER UPDATE ON activity REFERENCING OLD TABLE AS gone NEW TABLE AS fresh
  FOR EACH STATEMENT EXECUTE FUNCTION record_activity_changes();
CREATE OR REPLACE TRIGGER activity_delete_is_recorded AFTER DELETE ON activity REFERENCING OLD TABLE AS gone
  FOR EACH STATEMENT EXECUTE FUNCTION record_activity_changes();
