-- Remove submissions by gnomon.submit that are older than a second, at most $1, and give how many there were. Those
-- that another node is removing are left to it.
WITH chosen AS MATERIALIZED (
    SELECT ctid FROM gnomon.uncounted_submission
    WHERE at < (SELECT gnomon.now()) - interval '1 second' OR at > (SELECT gnomon.now()) + interval '1 second'
    LIMIT $1
    FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM gnomon.uncounted_submission
    WHERE ctid = ANY (ARRAY(SELECT ctid FROM chosen))
    RETURNING tenant_id, task_type, lane
)
SELECT tenant_id, task_type, lane, count(*) AS number
FROM gone
GROUP BY tenant_id, task_type, lane
ORDER BY tenant_id
