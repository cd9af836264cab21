-- One batch of a tenant, with what is noted and not yet counted.
SELECT {batch_values}
FROM gnomon.batch AS b
CROSS JOIN LATERAL ({batch_notes}) AS n
WHERE b.tenant_id = $1 AND b.id = $2
