-- Nodes that ended a day ago and left nothing behind.
DELETE FROM gnomon.node AS n
WHERE n.dead AND n.ended_at < (SELECT gnomon.now()) - interval '1 day'
  AND NOT EXISTS (SELECT FROM gnomon.task t WHERE t.state = 1 AND t.node = n.incarnation)
