-- Batches of which something is noted, $1 at most, without those that are set aside, $2.
SELECT DISTINCT n.tenant_id, n.batch_id
FROM (
    SELECT tenant_id, batch_id FROM gnomon.batch_note
    WHERE batch_id <> ALL ($2::uuid[])
    LIMIT 10000
) AS n
ORDER BY n.tenant_id, n.batch_id
LIMIT $1
