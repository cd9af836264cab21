-- Running tasks of a tenant by lane, type and queue. All running tasks are in one small index; at
-- most $2 of them, of whatever tenant, are examined; a row without a lane says that there are more.
-- $3 type, $4 lane, $5 tag, $6 cron job, $7 due from, $8 due before, $9 queue, $10 batch; null filters
-- nothing. $11 the first id, $12 the last.
WITH examined AS MATERIALIZED (
    SELECT tenant_id, id, lane, task_type, queue, tags, cron_job_id, due_at, batch_id
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
  AND ($10::uuid IS NULL OR batch_id = $10)
  AND id BETWEEN $11 AND $12
GROUP BY lane, task_type, queue
UNION ALL
SELECT NULL, NULL, NULL, 0 FROM examined HAVING count(*) >= $2
