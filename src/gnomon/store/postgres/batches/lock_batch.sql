-- Hold a batch: nobody counts, adds or closes until the transaction ends. Who comes to add from now on
-- waits: see hold_batches.
WITH turn AS MATERIALIZED (
    SELECT pg_advisory_xact_lock(hashtextextended('gnomon.batch ' || $1::text || ' ' || $2::uuid, 0))
)
SELECT b.state
FROM gnomon.batch AS b
WHERE b.tenant_id = $1 AND b.id = $2 AND (SELECT count(turn) FROM turn) >= 0
FOR UPDATE OF b
