-- Breakers that are open, by node, for those who ask why a task waits. Nodes do not read it.
CREATE TABLE gnomon.breaker (
    tenant_id text COLLATE "C" NOT NULL,
    host      text,                     -- null: all that the tenant runs
    node      uuid NOT NULL REFERENCES gnomon.node (incarnation) ON DELETE CASCADE,
    until     timestamptz NOT NULL,     -- when the next task is tried
    UNIQUE NULLS NOT DISTINCT (tenant_id, host, node)
);
CREATE INDEX breaker_node ON gnomon.breaker (node);
SELECT gnomon.wall('gnomon.breaker', 'SELECT');

-- Worker pools: what a node serves, as gnomon.model.pool.Pool; null: everything.
ALTER TABLE gnomon.node ADD COLUMN serves jsonb;

-- Whether any of some pools serves a task.
CREATE FUNCTION gnomon.in_a_pool(
    pools jsonb, tenant_id text, lane smallint, task_type text, queue text
) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
SELECT EXISTS (
    SELECT
    FROM jsonb_array_elements(in_a_pool.pools) AS p (pool)
    WHERE coalesce(p.pool -> 'tenants' ? in_a_pool.tenant_id, true)
      AND coalesce(p.pool -> 'lanes' @> to_jsonb(in_a_pool.lane), true)
      AND coalesce(p.pool -> 'types' ? in_a_pool.task_type, true)
      -- A task without a queue is in no list of queues.
      AND coalesce(p.pool -> 'queues' ? coalesce(in_a_pool.queue, ''), true)
)
$$;
