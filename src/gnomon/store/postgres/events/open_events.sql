-- How many events of a tenant ($1) nobody has taken note of, up to $2, without good news ($3), of
-- which the index event_open leaves out the most frequent.
SELECT count(*) AS number
FROM (
    SELECT FROM gnomon.event
    WHERE tenant_id = $1 AND acknowledged_at IS NULL AND kind <> 'breaker.closed'
      AND kind <> ALL ($3::text[])
    LIMIT $2
) AS e
