-- The keys of all tasks that run on a node; of a gateway, those on its sessions, whoever has them now.
SELECT tenant_id, id FROM gnomon.task WHERE state = 1 AND node = $1
UNION ALL
SELECT t.tenant_id, t.id
FROM gnomon.node AS s
CROSS JOIN LATERAL (
    SELECT tenant_id, id FROM gnomon.task WHERE task.state = 1 AND task.node = s.incarnation OFFSET 0
) AS t
WHERE s.kind = 2 AND $1 = ANY (s.gateways)
