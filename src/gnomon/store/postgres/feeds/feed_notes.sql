-- The first $4 notes of a feed ($1 tenant, $2 feed) as long as it is there and publishes to $3, with what is
-- kept of their tasks: of dead letters where they are, of all others in the archive. What has been deleted
-- since is told without.
SELECT
    n.tenant_id, n.place, n.task_id, n.task_type, n.state, n.attempt, n.fence, n.at, n.until, n.error,
    coalesce(t.name, d.name) AS name, coalesce(t.tags, d.tags)::text AS tags, t.result, t.response_status
FROM (
    SELECT w.*
    FROM gnomon.feed_note AS w
    WHERE w.feed_id = $2
      AND EXISTS (
          SELECT FROM gnomon.feed AS f
          WHERE f.tenant_id = $1 AND f.id = $2 AND f.url = $3 AND f.removed_at IS NULL OFFSET 0
      )
    ORDER BY w.place LIMIT $4
) AS n
LEFT JOIN LATERAL (
    SELECT a.name, a.tags, coalesce(a.result, to_json(a.response_body))::text AS result, a.response_status
    FROM gnomon.task_archive AS a
    WHERE n.state >= 10 AND a.tenant_id = n.tenant_id AND a.id = n.task_id
    OFFSET 0
) AS t ON true
LEFT JOIN LATERAL (
    SELECT k.name, k.tags FROM gnomon.task AS k
    WHERE n.state = 4 AND k.tenant_id = n.tenant_id AND k.id = n.task_id
    OFFSET 0
) AS d ON true
ORDER BY n.place
