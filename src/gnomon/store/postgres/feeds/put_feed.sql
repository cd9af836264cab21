-- Create a feed, or replace it, unless it would be one more than a tenant may have ($7): then nothing is
-- returned. What waits goes where the new one says.
INSERT INTO gnomon.feed AS f (tenant_id, id, name, url, task_types, states, created_at, updated_at)
SELECT $1, $2, $3, $4, $5::text[], $6::smallint[], now, now
FROM gnomon.now()
WHERE EXISTS (SELECT FROM gnomon.feed WHERE tenant_id = $1 AND name = $3 AND removed_at IS NULL)
   OR (SELECT count(*) FROM gnomon.feed WHERE tenant_id = $1 AND removed_at IS NULL) < $7::integer
ON CONFLICT (tenant_id, name) WHERE removed_at IS NULL DO UPDATE
SET url = excluded.url, task_types = excluded.task_types, states = excluded.states,
    updated_at = excluded.updated_at
RETURNING f.xmax = 0 AS created
