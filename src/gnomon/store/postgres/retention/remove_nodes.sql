-- Nodes that ended a day ago and left nothing behind, at most $1 at once. Sessions, after a minute: they
-- come and go with workers, as often as their tenant likes, and sweepers look at each.
WITH gone AS MATERIALIZED (
    SELECT n.incarnation
    FROM gnomon.node AS n
    WHERE n.dead AND n.ended_at < (SELECT gnomon.now())
        - CASE WHEN n.kind = 2 THEN interval '1 minute' ELSE interval '1 day' END
      -- The LIMIT keeps it at one look into the index for each node.
      AND (SELECT count(*) FROM (
          SELECT FROM gnomon.task AS t WHERE t.state = 1 AND t.node = n.incarnation LIMIT 1
      ) AS running) = 0
    LIMIT $1::integer
    FOR UPDATE OF n SKIP LOCKED
)
DELETE FROM gnomon.node WHERE incarnation = ANY (ARRAY(SELECT incarnation FROM gone))
