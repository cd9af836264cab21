-- How many tasks of each of these flows wait, each counted up to $4.
SELECT (
    SELECT count(*)
    FROM (
        SELECT
        FROM gnomon.task AS t
        WHERE t.state = 0 AND t.tenant_id = f.tenant_id AND t.lane = f.lane AND t.flow = f.flow
        LIMIT $4
    ) AS waiting
) AS count
FROM unnest($1::text[], $2::smallint[], $3::bigint[]) WITH ORDINALITY
    AS f (tenant_id, lane, flow, place)
ORDER BY f.place
