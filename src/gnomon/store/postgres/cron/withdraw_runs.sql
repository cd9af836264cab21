-- Take back runs of a job that have not started, with their entries in the ledger.
-- $3 only those that fire after this (null: all), $4 of these kinds. A run that is being claimed stays.
WITH gone AS (
    DELETE FROM gnomon.task AS t
    USING gnomon.occurrence AS o
    WHERE t.cron_job_id = $2 AND t.tenant_id = $1 AND t.attempt = 0 AND t.state IN (0, 2, 3)
      AND ($3::timestamptz IS NULL OR t.fire_at > $3)
      AND o.cron_job_id = t.cron_job_id AND o.fire_at = t.fire_at AND o.kind = ANY ($4::smallint[])
    RETURNING t.id, t.fire_at, t.payload_size
), payloads AS (
    DELETE FROM gnomon.task_payload AS p
    USING gone AS g
    WHERE g.payload_size IS NOT NULL AND p.tenant_id = $1 AND p.task_id = g.id
)
DELETE FROM gnomon.occurrence AS o
WHERE o.cron_job_id = $2 AND o.fire_at = ANY (ARRAY(SELECT fire_at FROM gone))
RETURNING o.fire_at, o.kind
