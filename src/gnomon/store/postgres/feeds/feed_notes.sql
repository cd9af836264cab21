-- The first $2 notes of a feed ($1), with what is kept of their tasks: of those that have ended in the
-- archive. What has been deleted since is told without.
SELECT
    n.tenant_id, n.place, n.task_id, n.task_type, n.state, n.attempt, n.fence, n.at, n.until, n.error,
    t.name, t.tags::text AS tags, t.result, t.response_status
FROM (
    SELECT * FROM gnomon.feed_note WHERE feed_id = $1 ORDER BY place LIMIT $2
) AS n
LEFT JOIN LATERAL (
    SELECT a.name, a.tags, coalesce(a.result, to_json(a.response_body))::text AS result, a.response_status
    FROM gnomon.task_archive AS a
    WHERE n.state >= 10 AND a.tenant_id = n.tenant_id AND a.id = n.task_id
    OFFSET 0
) AS t ON true
ORDER BY n.place
