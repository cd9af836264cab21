-- How many events of a tenant ($1) nobody has taken note of, up to $2, without good news: as the
-- index event_open has them.
SELECT count(*) AS number
FROM (
    SELECT FROM gnomon.event
    WHERE tenant_id = $1 AND acknowledged_at IS NULL AND kind <> 'breaker.closed'
    LIMIT $2
) AS e
