-- Batches that tasks are about to be put into: none of them is closed until the transaction ends. Who
-- counts members does not wait for this. $1/$2 the keys, in order.
SELECT b.tenant_id, b.id, b.state, b.total, b.deadline <= gnomon.now() AS late
FROM gnomon.batch AS b
WHERE (b.tenant_id, b.id) IN (SELECT * FROM unnest($1::text[], $2::uuid[]))
ORDER BY b.tenant_id, b.id
FOR KEY SHARE
