-- What became of the elements of a mapped node, in their order; outputs as far as all together fit into
-- $4 bytes. $1 tenant, $2 run, $3 the place of the first, $5 how many.
SELECT o.state, o.bytes, CASE WHEN o.bytes <= $4::bigint THEN o.output END AS output
FROM (
    SELECT n.place, e.state, e.output,
        sum(coalesce(octet_length(e.output::text), 4) + 1) OVER (ORDER BY n.place) AS bytes
    FROM gnomon.workflow_node AS n
    JOIN gnomon.workflow_result AS e ON e.tenant_id = n.tenant_id AND e.task_id = n.task_id
    WHERE n.tenant_id = $1 AND n.run_id = $2 AND n.place >= $3::integer
      AND n.place < $3::integer + $5::integer
) AS o
ORDER BY o.place
