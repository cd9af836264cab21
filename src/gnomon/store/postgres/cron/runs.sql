-- A page of a job's ledger from the latest fire back, with what became of each run: live and finished
-- in one snapshot. At most $5 entries are examined, however rare the filter; a last row without a
-- job says where the examining stopped (stopped_at), where it stopped before the end.
-- $3 the cursor, $4 runs a page and one more, $6 reasons why there is no run, $7 states of the task,
-- $8 it is due, $9 it was tried. Null filters nothing.
WITH moment AS MATERIALIZED (
    SELECT gnomon.now() AS now
), examined AS MATERIALIZED (
    SELECT * FROM gnomon.occurrence
    WHERE cron_job_id = $2 AND tenant_id = $1 AND fire_at < $3
    ORDER BY fire_at DESC
    LIMIT $5
), page AS MATERIALIZED (
    SELECT
        o.cron_job_id, o.fire_at, o.kind, o.task_id, o.skipped, o.missed, o.sla_missed_at,
        coalesce(t.state, a.state) AS state,
        coalesce(t.due_at, a.execute_at) AS due_at,
        coalesce(t.started_at, a.started_at) AS started_at,
        a.finished_at,
        coalesce(t.attempt, a.attempt) AS attempt,
        coalesce(t.last_error, a.last_error) AS last_error
    FROM examined AS o
    LEFT JOIN LATERAL (
        SELECT state, due_at, started_at, attempt, last_error FROM gnomon.task
        WHERE tenant_id = $1 AND id = o.task_id
        OFFSET 0  -- a probe for each, never a join
    ) AS t ON true
    LEFT JOIN LATERAL (
        SELECT state, execute_at, started_at, finished_at, attempt, last_error
        FROM gnomon.task_archive
        WHERE tenant_id = $1 AND id = o.task_id
        OFFSET 0
    ) AS a ON true
    WHERE ($6::smallint[] IS NULL OR o.skipped = ANY ($6))
      AND ($7::smallint[] IS NULL
           OR (o.skipped IS NULL AND coalesce(t.state, a.state) = ANY ($7)))
      AND ($8::boolean IS NULL OR (t.due_at <= (SELECT now FROM moment)) = $8)
      AND ($9::boolean IS NULL OR (t.attempt > 0) = $9)
    ORDER BY o.fire_at DESC
    LIMIT $4
), stop AS (
    SELECT min(fire_at) AS fire_at
    FROM examined
    HAVING count(*) = $5 AND (SELECT count(*) FROM page) < $4
)
SELECT p.*, m.now, NULL::timestamptz AS stopped_at FROM page AS p CROSS JOIN moment AS m
UNION ALL
SELECT p.*, NULL, s.fire_at FROM stop AS s LEFT JOIN page AS p ON false
ORDER BY fire_at DESC NULLS LAST
