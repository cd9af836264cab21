-- Batches that are open, and those whose members have ended, $1 of each at the most.
SELECT
    (SELECT count(*) FROM (SELECT FROM gnomon.batch WHERE state = 0 ORDER BY tenant_id, id LIMIT $1) AS b) AS open,
    (
        SELECT count(*)
        FROM (SELECT FROM gnomon.batch WHERE finished_at IS NOT NULL ORDER BY finished_at LIMIT $1) AS b
    ) AS ended
