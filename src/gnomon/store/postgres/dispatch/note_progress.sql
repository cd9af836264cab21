-- Note how far running tasks are, each only while its fence and its node are those that it was started
-- with, and forget what was noted of executions that have ended. $1 the node of each, $2/$3 the keys, $4
-- fences, $5 fractions, $6 messages; $7/$8 keys and $9 fences to forget, none of them among $2/$3.
WITH forgotten AS (
    DELETE FROM gnomon.progress AS p
    USING unnest($7::text[], $8::uuid[], $9::bigint[]) AS e (tenant_id, task_id, fence)
    WHERE p.tenant_id = e.tenant_id AND p.task_id = e.task_id AND p.fence = e.fence
)
INSERT INTO gnomon.progress AS p (tenant_id, task_id, fence, fraction, message, at)
SELECT r.tenant_id, r.task_id, r.fence, r.fraction, r.message, (SELECT gnomon.now())
FROM unnest($2::text[], $3::uuid[], $4::bigint[], $5::float8[], $6::text[], $1::uuid[])
    AS r (tenant_id, task_id, fence, fraction, message, node)
-- One probe of the primary key for each, as in settle.
CROSS JOIN LATERAL (
    SELECT FROM gnomon.task AS t
    WHERE t.tenant_id = r.tenant_id AND t.id = r.task_id AND t.fence = r.fence AND t.node = r.node
    OFFSET 0
) AS t
ON CONFLICT (tenant_id, task_id) DO UPDATE
SET fence = excluded.fence, fraction = excluded.fraction, message = excluded.message,
    at = excluded.at
WHERE p.fence <= excluded.fence
