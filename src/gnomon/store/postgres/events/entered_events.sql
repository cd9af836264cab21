-- Which of these events there are. $1/$2 tenants and ids.
SELECT e.id
FROM unnest($1::text[], $2::uuid[]) AS n (tenant_id, id)
CROSS JOIN LATERAL (
    SELECT id FROM gnomon.event WHERE tenant_id = n.tenant_id AND id = n.id OFFSET 0
) AS e
