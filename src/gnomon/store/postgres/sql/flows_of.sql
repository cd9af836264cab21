-- What the flows of some live tasks are, as far as limits ask: one probe of the primary key each.
SELECT t.tenant_id, t.id, t.flow, t.task_type, t.queue, t.limit_keys
FROM unnest($1::text[], $2::uuid[]) AS k (tenant_id, id)
JOIN gnomon.task AS t ON t.tenant_id = k.tenant_id AND t.id = k.id
