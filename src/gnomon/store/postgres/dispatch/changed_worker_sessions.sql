-- Which of these sessions ($1) are dead, another gateway than $2 claims for, or shall drain.
SELECT s.incarnation, coalesce(n.dead, true) AS dead, n.gateway IS DISTINCT FROM $2 AS moved,
    coalesce(n.draining, false) AS draining
FROM unnest($1::uuid[]) AS s (incarnation)
LEFT JOIN gnomon.node AS n ON n.incarnation = s.incarnation
WHERE n.incarnation IS NULL OR n.dead OR n.gateway IS DISTINCT FROM $2 OR n.draining
