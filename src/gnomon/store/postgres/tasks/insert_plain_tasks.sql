-- Store a batch of new tasks as most are: no quota is asked about, no payload is kept apart.
-- See insert_tasks.sql, of which this is the part that is always needed; the columns are the same.
-- $31 tenants, $32 how many of the tasks each of them has, $33 how many bytes of payload, $34 how many
-- bytes in all.
-- Gives each flow with the ids of its tasks; with NULL where all tasks are in it, as mostly.
WITH metered AS (
    INSERT INTO gnomon.usage AS u (
        tenant_id, day, session, submissions, stored_bytes, held_bytes
    )
    SELECT m.tenant_id, (SELECT (gnomon.now() AT TIME ZONE 'UTC')::date), pg_backend_pid(),
        m.submissions, m.stored_bytes, m.held_bytes
    FROM unnest($31::text[], $32::bigint[], $33::bigint[], $34::bigint[])
        AS m (tenant_id, submissions, stored_bytes, held_bytes)
    ON CONFLICT (tenant_id, day, session) DO UPDATE
    SET submissions = u.submissions + excluded.submissions,
        stored_bytes = u.stored_bytes + excluded.stored_bytes,
        held_bytes = u.held_bytes + excluded.held_bytes
), stored AS (
    INSERT INTO gnomon.task (tenant_id, payload, {new_task}, shard, flow)
    SELECT coalesce(tenant_id, ($1::text[])[1]), payload, {new_task_values}, {new_task_place}
    FROM unnest($1::text[], $13::json[], {new_task_arrays}) AS s (tenant_id, payload, {new_task})
    RETURNING id, flow
)
SELECT flow, CASE WHEN count(*) < cardinality($2::uuid[]) THEN array_agg(id) END AS ids
FROM stored
GROUP BY flow
