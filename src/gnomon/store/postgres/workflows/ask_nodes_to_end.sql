-- Ask for the cancelling of running nodes: success still wins. $1 tenant, $2 their tasks.
UPDATE gnomon.task AS t SET cancel_requested = true
FROM (
    SELECT f.ctid
    FROM (SELECT id FROM unnest($2::uuid[]) AS id ORDER BY id) AS k
    CROSS JOIN LATERAL (
        SELECT task.ctid FROM gnomon.task
        WHERE task.tenant_id = $1 AND task.id = k.id AND task.state = 1
        FOR UPDATE SKIP LOCKED
    ) AS f
) AS h
WHERE t.ctid = h.ctid
RETURNING t.id
