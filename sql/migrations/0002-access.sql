-- compatible: the release before knows neither table, and writes no other name into the audit

-- Browser sessions, the states of OAuth that have been used, and refused tries in the audit.

CREATE TABLE browser_session (
  id_hash    bytea       PRIMARY KEY, -- keyed with the token that began it: a changed token finds no session of its kind
  access     text        NOT NULL CONSTRAINT browser_session_access_known CHECK (access IN ('admin', 'read')),
  expires_at timestamptz NOT NULL
);
COMMENT ON TABLE browser_session IS 'Browsers that are signed in. Signing out removes the row.';

CREATE TABLE used_oauth_state (
  nonce      text        PRIMARY KEY,
  expires_at timestamptz NOT NULL
);
COMMENT ON TABLE used_oauth_state IS 'States that came back from the provider; each is accepted once.';

ALTER TABLE audit_entry DROP CONSTRAINT audit_entry_who_known;
ALTER TABLE audit_entry ADD CONSTRAINT audit_entry_who_known CHECK (who IN ('admin', 'read', 'session', 'application', 'nobody'));
