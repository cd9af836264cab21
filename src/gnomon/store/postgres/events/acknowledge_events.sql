-- Note that somebody has taken note of events; the first who does is kept.
-- $1 tenant, $2 ids, $3 who, $4 what they say.
WITH open AS MATERIALIZED (
    SELECT id
    FROM gnomon.event
    WHERE tenant_id = $1 AND id = ANY ($2::uuid[]) AND acknowledged_at IS NULL
    ORDER BY id  -- two who do it at once do not wait for each other
    FOR UPDATE
)
UPDATE gnomon.event AS e
SET acknowledged_at = (SELECT gnomon.now()), acknowledged_by = $3, note = $4
FROM open AS o
WHERE e.tenant_id = $1 AND e.id = o.id
