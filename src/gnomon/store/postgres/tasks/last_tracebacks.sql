-- Of each of these tasks, the last execution that did not succeed: where it failed, and its answer.
-- $1 tenant, $2 ids.
SELECT c.id, e.response_status, e.response_body, e.traceback
FROM unnest($2::uuid[]) AS c (id)
CROSS JOIN LATERAL (
    SELECT response_status, response_body, traceback
    FROM gnomon.execution
    WHERE tenant_id = $1 AND task_id = c.id
    ORDER BY fence DESC
    LIMIT 1
) AS e
