-- A page of groups of unresolved dead letters, the one with the newest death first. From group to group
-- it is one step in the index, whatever they hold; at most $7 groups are looked at, and at most $8
-- members of those on the page. $1 tenant, $2 and $3 the lowest and the highest fingerprint, $4 and $5
-- died before this, as the last of the page before, $6 groups a page and one more, $9 type or null.
-- The hours are full ones before now, 24 for all that is older; `looked_at` groups were there at least.
WITH RECURSIVE moment AS MATERIALIZED (
    SELECT gnomon.now() AS now
), heads AS (
    (SELECT fingerprint, due_at, id
    FROM gnomon.task
    WHERE state = 4 AND tenant_id = $1 AND fingerprint >= $2 AND fingerprint <= $3
    ORDER BY fingerprint DESC, due_at DESC, id DESC
    LIMIT 1)
    UNION ALL
    SELECT n.fingerprint, n.due_at, n.id
    FROM heads AS h
    CROSS JOIN LATERAL (
        SELECT t.fingerprint, t.due_at, t.id
        FROM gnomon.task AS t
        WHERE t.state = 4 AND t.tenant_id = $1
          AND t.fingerprint >= $2 AND t.fingerprint < h.fingerprint
        ORDER BY t.fingerprint DESC, t.due_at DESC, t.id DESC
        LIMIT 1
    ) AS n
), found AS MATERIALIZED (
    SELECT fingerprint, due_at, id FROM heads LIMIT $7::integer
), page AS MATERIALIZED (
    SELECT fingerprint, due_at, id
    FROM found
    WHERE (due_at, fingerprint) < ($4::timestamptz, $5::bigint)
    ORDER BY due_at DESC, fingerprint DESC
    LIMIT $6::integer
)
SELECT p.fingerprint, p.due_at AS last_seen, p.id AS example, e.task_type, e.last_error,
    f.first_seen, c.number, c.hours, c.deaths, (SELECT count(*) FROM found) AS looked_at
FROM page AS p
CROSS JOIN moment AS m
CROSS JOIN LATERAL (
    SELECT t.task_type, t.last_error
    FROM gnomon.task AS t
    WHERE t.tenant_id = $1 AND t.id = p.id
    LIMIT 1
) AS e
CROSS JOIN LATERAL (
    SELECT t.due_at AS first_seen
    FROM gnomon.task AS t
    WHERE t.state = 4 AND t.tenant_id = $1 AND t.fingerprint = p.fingerprint
    ORDER BY t.due_at, t.id
    LIMIT 1
) AS f
CROSS JOIN LATERAL (
    SELECT sum(h.number)::integer AS number, array_agg(h.hour) AS hours,
        array_agg(h.number::integer) AS deaths
    FROM (
        SELECT least(24, greatest(0, floor(extract(epoch FROM m.now - d.due_at) / 3600)))::integer AS hour,
            count(*) AS number
        FROM (
            SELECT t.due_at
            FROM gnomon.task AS t
            WHERE t.state = 4 AND t.tenant_id = $1 AND t.fingerprint = p.fingerprint
            ORDER BY t.due_at DESC, t.id DESC
            LIMIT $8::integer
        ) AS d
        GROUP BY hour
    ) AS h
) AS c
WHERE $9::text IS NULL OR e.task_type = $9  -- few types share their fingerprints
ORDER BY p.due_at DESC, p.fingerprint DESC
