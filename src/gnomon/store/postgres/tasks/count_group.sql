-- How many unresolved dead letters a group has, counted up to $3; $2 null: those without a fingerprint.
SELECT (
    SELECT count(*) FROM (
        SELECT FROM gnomon.task
        WHERE state = 4 AND tenant_id = $1 AND fingerprint = $2::bigint
        LIMIT $3::integer
    ) AS known
) + (
    SELECT count(*) FROM (
        SELECT FROM gnomon.task
        WHERE state = 4 AND tenant_id = $1 AND fingerprint IS NULL AND $2 IS NULL
        LIMIT $3::integer
    ) AS unknown
) AS number
