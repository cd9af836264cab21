-- Batches of a tenant, older than $2, newest first. $3 of these states, $4 whether members are pending,
-- $5 whether all have succeeded; null: any. $6 how many. At most 10 000 are examined: see
-- last_batch_examined.
SELECT *
FROM (
    SELECT {batch_values}
    FROM (
        SELECT * FROM gnomon.batch WHERE tenant_id = $1 AND id < $2 ORDER BY id DESC LIMIT 10000
    ) AS b
    CROSS JOIN LATERAL ({batch_notes}) AS n
    WHERE $3::smallint[] IS NULL OR b.state = ANY ($3)
) AS b
WHERE ($4::boolean IS NULL OR (b.total > b.succeeded + b.dead + b.failed + b.cancelled) = $4)
  AND ($5::boolean IS NULL OR (b.total = b.succeeded) = $5)
ORDER BY b.id DESC
LIMIT $6
