-- Progress of executions that have ended, at most $1 rows at once: what dead nodes have left behind.
WITH past AS MATERIALIZED (
    SELECT p.ctid AS place
    FROM gnomon.progress AS p
    WHERE NOT EXISTS (
        SELECT FROM gnomon.task AS t
        WHERE t.tenant_id = p.tenant_id AND t.id = p.task_id AND t.fence = p.fence
    )
    LIMIT $1::integer
    FOR UPDATE OF p SKIP LOCKED
)
DELETE FROM gnomon.progress WHERE ctid = ANY (ARRAY(SELECT place FROM past))
