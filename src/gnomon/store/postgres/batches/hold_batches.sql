-- Batches that tasks are about to be put into: none of them is closed until the transaction ends. Who
-- counts members does not wait for this. $1/$2 the keys, in order.
-- The row alone would let in whoever comes while somebody waits to close it, who then could wait for
-- ever: locks of keys are given in the order in which they were asked for. They are room in the memory
-- of the server, so a request for more batches than that is fair to the first of them only.
WITH turn AS MATERIALIZED (
    SELECT pg_advisory_xact_lock_shared(hashtextextended('gnomon.batch ' || k.tenant_id || ' ' || k.id, 0))
    FROM unnest($1::text[], $2::uuid[]) AS k (tenant_id, id)
    LIMIT 20
)
SELECT b.tenant_id, b.id, b.state, b.deadline <= gnomon.now() AS late, b.total + (
    SELECT coalesce(sum(n.added), 0) FROM gnomon.batch_note AS n
    WHERE n.tenant_id = b.tenant_id AND n.batch_id = b.id
) AS total
FROM gnomon.batch AS b
WHERE (b.tenant_id, b.id) IN (SELECT * FROM unnest($1::text[], $2::uuid[]))
  AND (SELECT count(turn) FROM turn) >= 0
ORDER BY b.tenant_id, b.id
FOR KEY SHARE OF b
