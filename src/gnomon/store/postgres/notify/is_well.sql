-- Whether nodes live, and none was lost in the last minutes ($1 seconds).
SELECT EXISTS (SELECT FROM gnomon.node WHERE NOT dead AND kind <> 2 AND alive_until > m.now)
    AND NOT EXISTS (
        SELECT FROM gnomon.node AS n
        WHERE n.kind <> 2 AND CASE WHEN n.dead
            -- One that left did so while its lease was good.
            THEN n.ended_at > greatest(n.alive_until, m.now - make_interval(secs => $1::float8))
            ELSE n.alive_until < m.now
        END
    ) AS well
FROM (SELECT gnomon.now() AS now) AS m
