-- How many due tasks of its shard, of whatever tenant, come before a due task: a number, and nothing
-- else of them. $1/$2 the key, $3 how far to count.
SELECT count(*) AS ahead
FROM (
    SELECT
    FROM gnomon.task AS t
    JOIN gnomon.task AS before
        ON before.state = 0
        AND before.shard = t.shard
        AND (before.due_at, before.id) < (t.due_at, t.id)
    WHERE t.tenant_id = $1 AND t.id = $2 AND t.state + 0 = 0 AND t.due_at <= (SELECT gnomon.now())
    LIMIT $3
) AS earlier
