-- What changes when something changes that the pages of a tenant show, for each tenant ($1) whose
-- pages are watched. Rows of history are never counted: each part reads the few newest rows of an
-- index, or a table that is small for a tenant, and only where it is watched ($2 to $6). $7 kinds of events that are good news.
SELECT
    w.tenant_id,
    CASE WHEN w.work THEN (
        -- Written by the statements that submit and settle, a row for each of their connections.
        SELECT sum(u.submissions + u.executions + u.stored_bytes + u.freed_bytes)::text
        FROM gnomon.usage AS u
        WHERE u.tenant_id = w.tenant_id AND u.day = (m.now AT TIME ZONE 'UTC')::date
    ) END AS work,
    CASE WHEN w.work THEN (
        -- The roll-up: starts, too.
        SELECT sum(a.submitted + a.started + a.succeeded + a.failed + a.dead)::text
        FROM gnomon.activity AS a
        WHERE a.tenant_id = w.tenant_id AND a.span = 1 AND a.task_type = ''
          AND a.starts_at >= m.now - interval '2 minutes'
    ) END AS rolled_up,
    CASE WHEN w.dead THEN (
        SELECT sum(hashtext(d.id::text || d.version)::bigint)
        FROM (
            SELECT t.id, t.xmin::text AS version
            FROM gnomon.task AS t
            WHERE t.tenant_id = w.tenant_id AND t.state = 4
            ORDER BY t.id DESC
            LIMIT 50
        ) AS d
    ) END AS dead,
    CASE WHEN w.cron THEN (
        SELECT sum(hashtext(j.id::text || j.version)::bigint)
        FROM (
            SELECT c.id, c.xmin::text AS version
            FROM gnomon.cron_job AS c
            WHERE c.tenant_id = w.tenant_id
            ORDER BY c.id DESC
            LIMIT 200
        ) AS j
    ) END AS cron,
    CASE WHEN w.limits THEN (
        SELECT sum(hashtext(each.version)::bigint)
        FROM (
            (SELECT l.name || l.xmin::text AS version
             FROM gnomon.limiter AS l
             WHERE l.tenant_id = w.tenant_id
             ORDER BY l.name
             LIMIT 200)
            UNION ALL
            (SELECT coalesce(b.host, '') || b.xmin::text
             FROM gnomon.breaker AS b
             WHERE b.tenant_id = w.tenant_id
             ORDER BY b.host
             LIMIT 200)
        ) AS each
    ) END AS limits,
    CASE WHEN w.bulk THEN (
        SELECT sum(hashtext(o.id::text || o.version)::bigint)
        FROM (
            SELECT b.id, b.xmin::text AS version
            FROM gnomon.bulk_operation AS b
            WHERE b.tenant_id = w.tenant_id
            ORDER BY b.id DESC
            LIMIT 50
        ) AS o
    ) END AS bulk,
    (
        SELECT e.id FROM gnomon.event AS e
        WHERE e.tenant_id = w.tenant_id
        ORDER BY e.id DESC
        LIMIT 1
    ) AS event,
    (
        SELECT count(*)
        FROM (
            SELECT FROM gnomon.event AS e
            WHERE e.tenant_id = w.tenant_id AND e.acknowledged_at IS NULL
              AND e.kind <> 'breaker.closed' AND e.kind <> ALL ($7::text[])
            LIMIT 100
        ) AS o
    ) AS open
FROM unnest($1::text[], $2::boolean[], $3::boolean[], $4::boolean[], $5::boolean[], $6::boolean[])
    AS w (tenant_id, work, dead, cron, limits, bulk)
CROSS JOIN (SELECT gnomon.now() AS now OFFSET 0) AS m
