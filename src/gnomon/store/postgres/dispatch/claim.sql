-- Take the chosen tasks (WAITING, CLAIM -> RUNNING), each with a new fence, for one node.
-- The LATERAL keeps the plan at one primary-key probe a task; SKIP LOCKED keeps two nodes that
-- choose the same keys from waiting for each other. `state + 0`: no partial index answers to that, or
-- the planner would take one that it believes to be empty, and walk the dead entries of a backlog.
-- A gated run starts only with the consent of its cron job ($5: it was given). Once a run of a job
-- has started in time it cannot be missed any more, so its retries do not expire.
-- The row of the node is locked, so that whoever locks it after us knows of all that it claimed: see
-- gnomon.drop_dead_leases.
-- $1 incarnation, $2/$3 the keys, $4 seconds of grace after a task's timeout, $6 the flow that each
-- was chosen as, if it is known: it has the permits of that one; $7 seconds that it may be ahead of its time.
WITH moment AS MATERIALIZED (
    SELECT now, now + make_interval(secs => $7::float8) AS until FROM (SELECT gnomon.now() AS now OFFSET 0) AS m
), chosen AS MATERIALIZED (
    SELECT t.ctid
    FROM (
        SELECT {chosen_key}
        FROM unnest($2::text[], $3::uuid[], $6::bigint[]) AS u (tenant_id, id, flow)
    ) AS k
    CROSS JOIN LATERAL (
        {chosen_row}
    ) AS t
    WHERE EXISTS (SELECT FROM gnomon.node WHERE incarnation = $1 AND NOT dead FOR KEY SHARE)
)
UPDATE gnomon.task AS t
SET {claimed_values},
    node = $1
FROM moment AS m
-- A row that changed between the snapshot and its lock is not seen at its new place: it is merely
-- not claimed this time.
WHERE t.ctid = ANY (ARRAY(SELECT ctid FROM chosen))
RETURNING
    {claimed_columns}
