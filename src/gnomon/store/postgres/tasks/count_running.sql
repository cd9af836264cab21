-- Running tasks of a tenant by lane, type and queue. All running tasks are in one small index; at
-- most $2 of them, of whatever tenant, are examined; a row without a lane says that there are more.
-- $3 type, $4 lane, $5 tag, $6 cron job, $7 due from, $8 due before, $9 queue; null filters nothing.
-- $10 the first id, $11 the last.
WITH examined AS MATERIALIZED (
    SELECT tenant_id, id, lane, task_type, queue, tags, cron_job_id, due_at
    FROM gnomon.task
    WHERE state = 1 AND node >= '00000000-0000-0000-0000-000000000000'
    ORDER BY node
    LIMIT $2
)
SELECT lane, task_type, queue, count(*) AS running
FROM examined
WHERE tenant_id = $1
  AND ($3::text IS NULL OR task_type = $3)
  AND ($4::smallint IS NULL OR lane = $4)
  AND ($5::text IS NULL OR tags ? $5)
  AND ($6::uuid IS NULL OR cron_job_id = $6)
  AND ($7::timestamptz IS NULL OR due_at >= $7)
  AND ($8::timestamptz IS NULL OR due_at < $8)
  AND ($9::text IS NULL OR queue = $9)
  AND id BETWEEN $10 AND $11
GROUP BY lane, task_type, queue
UNION ALL
SELECT NULL, NULL, NULL, 0 FROM examined HAVING count(*) >= $2
