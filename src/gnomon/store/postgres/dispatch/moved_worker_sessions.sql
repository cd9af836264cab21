-- Which of these sessions ($1) another gateway than $2 claims for, or are dead.
SELECT s.incarnation, coalesce(n.dead, true) AS dead
FROM unnest($1::uuid[]) AS s (incarnation)
LEFT JOIN gnomon.node AS n ON n.incarnation = s.incarnation
WHERE n.incarnation IS NULL OR n.dead OR n.gateway IS DISTINCT FROM $2
