-- compatible: the release before shows what is hidden, and erases it no sooner

-- A withdrawal of access that cannot be confirmed, since the athlete's token was dead before: their data is hidden until
-- it is erased, or until they reconnect.
ALTER TABLE athlete ADD COLUMN hidden_since timestamptz;
CREATE INDEX athlete_hidden ON athlete (athlete_id) WHERE hidden_since IS NOT NULL;
