-- Take tasks back that a node has claimed ahead of their time (RUNNING, RELEASE -> WAITING), and which this
-- transaction has locked. The node starts them only if no number was drawn since its claim, which it
-- looks at when their time has come. So the number is drawn first, and then the time is read: either the
-- node sees the number, or their time has come here as well and they run.
-- $1 tenant, $2 tasks.
WITH drawn AS MATERIALIZED (
    SELECT nextval('gnomon.recalls') AS number
), moment AS MATERIALIZED (
    SELECT gnomon.now() AS now FROM drawn WHERE number IS NOT NULL
)
UPDATE gnomon.task AS t
SET state = 0,
    fence = t.fence + 1,
    attempt = t.attempt - 1,
    node = NULL,
    run_until = NULL,
    started_at = NULL
FROM moment AS m
WHERE t.tenant_id = $1 AND t.id = ANY ($2::uuid[]) AND t.state + 0 = 1
  AND t.started_at = t.due_at AND t.due_at > m.now
