-- Adds a session, and removes some that have ended.
WITH ended AS (
    DELETE FROM gnomon.session
    WHERE name IN (
        SELECT name FROM gnomon.session WHERE ends_at < gnomon.now() ORDER BY ends_at LIMIT 100
    )
)
INSERT INTO gnomon.session (name, sealed, ends_at) VALUES ($1, $2, $3)
