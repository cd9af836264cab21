-- Which server this is, since when it runs, whether it has room; and whether the parents of partitions
-- ($1) have one for tomorrow, by its name ($2).
SELECT
    (SELECT system_identifier FROM pg_control_system()) AS system,
    (SELECT timeline_id FROM pg_control_checkpoint()) AS timeline,
    pg_postmaster_start_time() AS started_at,
    (SELECT full_why FROM gnomon.revision WHERE full_until > gnomon.now()) AS full_why,
    ARRAY(
        SELECT p.parent
        FROM unnest($1::text[], $2::text[]) AS p (parent, name)
        WHERE to_regclass('gnomon.' || p.name) IS NULL
        ORDER BY p.parent
    ) AS missing
