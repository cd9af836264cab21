-- Runs that their job's overlap policy keeps from starting (CANCEL -> CANCELLED), with the reason
-- on the task and in the ledger. Gives those that are skipped: see queue_runs.
-- $3 reasons, $4 the ledger's words for them.
WITH skipped AS (
    SELECT *
    FROM unnest(
        (SELECT $1::text[]), (SELECT $2::uuid[]), (SELECT $3::text[]), (SELECT $4::smallint[])
    ) AS k (tenant_id, id, reason, skipped)
), gone AS (
    DELETE FROM gnomon.task AS t
    USING skipped AS k
    CROSS JOIN LATERAL (
        SELECT task.ctid FROM gnomon.task WHERE task.tenant_id = k.tenant_id AND task.id = k.id
        OFFSET 0  -- a probe for each, never a join
    ) AS f
    WHERE t.ctid = f.ctid AND t.attempt = 0 AND t.state IN (0, 3)
    RETURNING t.*, k.reason, k.skipped, gnomon.removes_payload(t.keep_payload, 11) AS removed
), noted AS (
    UPDATE gnomon.occurrence AS o
    SET skipped = g.skipped, sla_at = NULL
    FROM gone AS g
    WHERE o.cron_job_id = g.cron_job_id AND o.fire_at = g.fire_at
), dropped AS MATERIALIZED (
    SELECT gnomon.drop_payloads(array_agg(g.tenant_id), array_agg(g.id)) AS number
    FROM gone AS g
    WHERE g.removed AND g.payload_size IS NOT NULL
    HAVING count(*) > 0
)
INSERT INTO gnomon.task_archive (
    {carried}, state, started_at, finished_at, attempt, payload_size, payload, payload_removed,
    last_error
)
SELECT
    {carried}, 11, NULL, gnomon.now(), attempt,
    CASE WHEN NOT removed THEN payload_size END, CASE WHEN NOT removed THEN payload END,
    removed AND (payload_size IS NOT NULL OR payload IS NOT NULL), reason
FROM gone
WHERE (SELECT count(*) FROM dropped) >= 0  -- it is done only where it is asked for
RETURNING tenant_id, id
