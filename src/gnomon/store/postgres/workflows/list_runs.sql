-- Runs of a tenant, older than $2, newest first. $3 of this workflow, $4 of these states, $5 whether
-- they are paused, $6 whether a dead letter holds them up; null: any. $7 how many. At most
-- 10 000 are examined: see last_run_examined.
SELECT *
FROM (
    SELECT
        r.id, r.tenant_id, r.workflow, r.version, r.state, r.paused, r.reason, r.input, r.deadline,
        r.created_at, r.created_by, r.finished_at, r.retry_of, r.rolls_back,
        r.state IN (0, 2) AND EXISTS (
            SELECT FROM gnomon.task AS t
            WHERE t.tenant_id = r.tenant_id AND t.workflow_run_id = r.id AND t.state = 4
              AND NOT EXISTS (
                  SELECT FROM gnomon.workflow_result AS e
                  WHERE e.tenant_id = t.tenant_id AND e.task_id = t.id
              )
        ) AS dead
    FROM (
        (SELECT * FROM gnomon.workflow_run
         WHERE tenant_id = $1 AND id < $2 AND $3::text IS NULL
         ORDER BY id DESC LIMIT 10000)
        UNION ALL
        (SELECT * FROM gnomon.workflow_run
         WHERE tenant_id = $1 AND id < $2 AND workflow = $3
         ORDER BY id DESC LIMIT 10000)
    ) AS r
    WHERE ($4::smallint[] IS NULL OR r.state = ANY ($4))
      AND ($5::boolean IS NULL OR r.paused = $5)
) AS r
WHERE $6::boolean IS NULL OR r.state > 0 OR r.dead = $6
ORDER BY r.id DESC
LIMIT $7
