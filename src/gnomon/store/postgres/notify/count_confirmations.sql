-- Messages that asked addresses for their consent in the last hour, of a tenant ($1). Older ones are
-- removed.
WITH old AS (
    DELETE FROM gnomon.confirmation_sent WHERE tenant = $1 AND at < gnomon.now() - interval '1 hour'
)
SELECT count(*) AS number
FROM gnomon.confirmation_sent
WHERE tenant = $1 AND at >= gnomon.now() - interval '1 hour'
