-- How many due tasks of its shard, of whatever tenant, come before a due task: a number, and nothing
-- else of them. $1/$2 the key, $3 how far to count.
SELECT count(*) AS ahead
FROM gnomon.task AS t
CROSS JOIN LATERAL (
    SELECT
    FROM gnomon.task AS before
    WHERE before.state = 0
      AND before.shard = t.shard
      AND (before.due_at, before.id) < (t.due_at, t.id)
    ORDER BY before.due_at, before.id  -- so that the index is walked, and left where the count ends
    LIMIT $3
) AS earlier
WHERE t.tenant_id = $1 AND t.id = $2 AND t.state + 0 = 0 AND t.due_at <= (SELECT gnomon.now())
