-- Sessions of people who signed in to the dashboard, by the hash of their cookie. The credentials
-- are encrypted under the cookie, which is not stored. Of no tenant: no wall, and no grant.
CREATE TABLE gnomon.session (
    name bytea PRIMARY KEY CHECK (length(name) = 32),
    sealed bytea NOT NULL CHECK (length(sealed) <= 20000),
    ends_at timestamptz NOT NULL
);
CREATE INDEX session_ends ON gnomon.session (ends_at);
